"""Cards and live panels as numbers and text, before a browser sees them."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from overviews import overview

from dask_dpmeans.figures.data import Feature
from dask_dpmeans.figures.plot.maps import shade
from dask_dpmeans.report import live_panels as live
from dask_dpmeans.report.page import _bars, cards

COUNTS = arrays(np.float64, st.tuples(*[st.integers(1, 9)] * 3), elements=st.integers(0, 50))


@given(COUNTS, st.integers(1, 9))
def test_coarser_boxes_have_the_same_weight_in_a_window_of_the_same_start(counts, side):
    found, growth = live.coarsened(counts, side)
    assert max(found.shape[1:]) <= side
    assert found.sum() == counts.sum()
    for axis in (1, 2):
        width = growth[axis - 1] / found.shape[axis] * counts.shape[axis]  # in boxes of before
        assert width == pytest.approx(round(width))
        first = counts.take(range(min(round(width), counts.shape[axis])), axis=axis).sum()
        assert found.take(0, axis=axis).sum() == first


def test_boxes_of_a_panel_have_the_colors_of_the_picture_and_the_weights_of_the_rows():
    given = overview(n_rows=12_000, bins=40)
    found, ranks = given.maps[0], live._ranks(given)
    boxes = next(
        each.data_source
        for each in live._map(found, ranks, 20).renderers
        if each.data_source.name == "boxes"
    )
    counts, _ = live.coarsened(found.counts, 20)
    np.testing.assert_array_equal(boxes.data["weight"][0], counts.sum(axis=0).T)
    colors = boxes.data["image"][0].view(np.uint8).reshape(20, 20, 4)
    wanted = shade(counts, live._colors(found.layers, ranks))
    np.testing.assert_allclose(colors, 255 * wanted, atol=0.51)


def test_a_map_has_room_for_the_number_above_its_highest_center():
    given = overview()
    found = given.maps[0]
    panel, height = live._map(found, live._ranks(given), 20), found.high[1] - found.low[1]
    assert panel.y_range.end >= found.high[1] + 0.07 * height
    assert panel.y_range.start == pytest.approx(found.low[1] - 0.03 * height)


@given(arrays(np.float64, 6, elements=st.integers(0, 99)), st.integers(-500, 500))
def test_histograms_of_a_card_have_the_same_area_and_bars_stay_inside(counts, score):
    overall = counts + 1
    one = _bars(Feature("name", score / 10, 1.0, 0.0, 2.0, counts, overall))
    assert 0 <= one.left <= one.left + one.width <= 100
    assert (one.left < 50) == (score < 0) or one.width == 0
    areas = [heights(path).sum() for path in (one.own, one.overall)]
    assert areas[1] > 0
    assert areas[0] == pytest.approx(areas[1] if counts.any() else 0.0, rel=0.02)


@given(st.floats(-0.049, 0.049))
def test_a_score_that_rounds_to_zero_has_no_minus(score):
    one = _bars(Feature("name", score, 1.0, 0.0, 2.0, np.ones(3), np.ones(3)))
    assert one.score == "+0.0 sd"


@pytest.mark.parametrize("k", [5, 11, 60])
def test_ticks_of_sizes_have_few_digits_and_the_names_of_their_bars(k):
    found = overview(12_000, k)
    (ticks,) = [each.xaxis.ticker.ticks for each in [live._sizes(found)]]
    named = live._sizes(found).xaxis.major_label_overrides
    assert 0 < sum(map(len, named.values())) <= live.MOST_DIGITS
    assert named == {each: str(found.clusters[each].cluster) for each in ticks}


def heights(path):
    """Heights of the bins of a histogram drawn as a path."""
    return 1 - np.array([float(each) for each in re.findall(r"V([\d.e-]+)H", path)])


def test_panels_in_a_page_hold_no_end_of_a_script_and_all_rows():
    found = live.live(overview(names=["</script>", "<!--", "$$x$$"]))
    assert "<" not in found.text
    panels = json.loads(found.text)
    assert [each["target_id"] for each in panels] == ["map-1", "map-2", "sizes"]
    assert all(each["version"] for each in panels)


def test_a_panel_without_clusters_or_bokeh_is_none(monkeypatch):
    assert live.live(overview()._replace(clusters=[])) is None
    monkeypatch.setattr(live, "AVAILABLE", False)
    assert live.live(overview()) is None


def test_clusters_have_the_same_color_on_cards_and_panels():
    found = overview()
    by_card = [each.color for each in cards(found)]
    clusters = np.array([each.cluster for each in found.clusters])
    packed = live._color_bytes(live._colors(clusters, live._ranks(found)))
    assert by_card == ["#" + bytes(each[:3]).hex() for each in packed]


def test_points_far_from_zero_keep_their_places():
    found = overview().maps[0]
    shift = 1.7e9  # seconds since 1970
    moved = found._replace(
        points=found.points + shift,
        centers=found.centers + shift,
        low=found.low + shift,
        high=found.high + shift,
    )
    assert live._compact(found.points, found).dtype == np.float32
    np.testing.assert_array_equal(live._compact(moved.points, moved), moved.points)


def test_micro_centers_and_all_but_the_first_centers_have_no_numbers(monkeypatch):
    asked = []
    monkeypatch.setattr(
        live.plot,
        "choose_spaced",
        lambda points, *rest: asked.append(rest) or np.ones(len(points), bool),
    )
    found = overview().maps[0]
    live._map(found, live._ranks(overview()), 10)
    live._map(found._replace(groups=np.zeros_like(found.groups)), live._ranks(overview()), 10)
    assert [rest[-1] for rest in asked] == [live.MOST_LABELS]
