"""Flows between labelings: counted alike for any chunks, named for what they are, and drawn."""

import io
from importlib import import_module
from itertools import combinations, pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans import InputError
from dask_dpmeans.figures import data, plot
from dask_dpmeans.selection.metrics import agreement_of

LABELINGS = st.integers(2, 25).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(-1, 5), min_size=n, max_size=n).map(np.array), min_size=2, max_size=3
    )
)
"""Two or three labelings of the same rows; -1 is noise."""


def rand_over_pairs(first, second):
    """The adjusted Rand index, by comparing all pairs of rows."""
    pairs = list(combinations(range(len(first)), 2))
    one = [first[i] == first[j] for i, j in pairs]
    other = [second[i] == second[j] for i, j in pairs]
    both = sum(a and b for a, b in zip(one, other, strict=True))
    expected = sum(one) * sum(other) / len(pairs)
    most = (sum(one) + sum(other)) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


@given(LABELINGS)
def test_the_agreement_of_flows_is_that_of_all_pairs_of_rows(labelings):
    found = data.flows(labelings)
    for (i, j), pairs in found.pairs.items():
        wanted = rand_over_pairs(labelings[i], labelings[j])
        assert pairs.adjusted_rand == pytest.approx(wanted, abs=1e-12)
        assert agreement_of(pairs).adjusted_rand == pairs.adjusted_rand


@given(LABELINGS)
def test_flows_hold_every_row_once(labelings):
    found = data.flows(labelings)
    assert len(found.pairs) == len(labelings) * (len(labelings) - 1) // 2
    for number, labels in enumerate(labelings):
        rows = found.sizes[number]
        assert rows == {each: int((labels == each).sum()) for each in np.unique(labels).tolist()}
        assert list(rows.values()) == sorted(rows.values(), reverse=True)
    for (i, j), pairs in found.pairs.items():
        for first, second, count in zip(pairs.first, pairs.second, pairs.counts, strict=True):
            assert count == ((labelings[i] == first) & (labelings[j] == second)).sum()


@given(LABELINGS)
def test_every_cluster_is_in_one_change_and_split_is_merged_backwards(labelings):
    found, backwards = data.flows(labelings[:2]), data.flows(labelings[:2][::-1])
    changes = data.changes(found)
    for side, sizes in zip(("before", "after"), found.sizes, strict=True):
        named = [each for change in changes for each in getattr(change, side)]
        assert sorted(named) == sorted(sizes)
    names = {"split": "merged", "merged": "split", "scattered": "gathered", "gathered": "scattered"}
    turned = {
        (names.get(each.kind, each.kind), tuple(each.after), tuple(each.before), each.jaccard)
        for each in changes
    }
    assert turned == {
        (each.kind, tuple(each.before), tuple(each.after), each.jaccard)
        for each in data.changes(backwards)
    }


@given(LABELINGS)
def test_the_jaccard_index_of_a_change_counts_rows_in_both(labelings):
    for change in data.changes(data.flows(labelings[:2])):
        before = np.isin(labelings[0], change.before)
        after = np.isin(labelings[1], change.after)
        assert change.rows == (before | after).sum()
        assert change.jaccard == (before & after).sum() / change.rows


def test_the_same_labels_stay_whatever_their_numbers():
    labels = np.random.default_rng(0).integers(-1, 6, 500)
    found = data.flows([labels, (7 * (labels + 1)) % 11])
    assert found.pairs[0, 1].adjusted_rand == 1
    changes = data.changes(found)
    assert {change.kind for change in changes} == {"stayed"}
    assert {change.before[0]: change.after[0] for change in changes} == {
        each: 7 * (each + 1) % 11 for each in range(-1, 6)
    }


@pytest.mark.parametrize(
    ("first", "second", "kind", "before", "after"),
    [
        ("0" * 9, "555555999", "split", [0], [5, 9]),
        ("555555999", "0" * 9, "merged", [5, 9], [0]),
        ("000011111", "000000111", "moved", [0], [0]),
        ("000011111", "000000111", "moved", [1], [1]),
        ("00000000001", "00000000111", "regrouped", [0, 1], [0, 1]),
        ("000111222333", "012012012012", "scattered", [0], []),
        ("012012012012", "000111222333", "gathered", [], [3]),
    ],
)
def test_changes_are_named_for_what_became_of_the_clusters(first, second, kind, before, after):
    labelings = [np.array(list(map(int, text))) for text in (first, second)]
    changes = data.changes(data.flows(labelings))
    assert (kind, before, after) in [(each.kind, each.before, each.after) for each in changes]


def test_a_cluster_stays_from_a_jaccard_index_of_95_percent_on():
    first = np.repeat([0, 1], [100, 100])
    for moved, kind in ((5, "stayed"), (6, "moved")):
        second = first.copy()
        second[:moved] = 2 + np.arange(moved)  # rows alone
        second[100:] = 1
        kinds = {
            tuple(each.before): each.kind for each in data.changes(data.flows([first, second]))
        }
        assert kinds[1,] == "stayed"
        assert kinds[0,] == "split"
        second[:moved] = 1
        kinds = {
            tuple(each.before): each.kind for each in data.changes(data.flows([first, second]))
        }
        assert kinds[0,] == kind


def test_flows_do_not_depend_on_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("dask_dpmeans.figures.data.labelings"), "TOGETHER", 64)
    rng = np.random.default_rng(1)
    labelings = [rng.integers(-1, 5, 1000).astype(np.int32) for _ in range(3)]
    wanted = data.flows(labelings)
    stored = [
        zarr.create_array(tmp_path / f"{rows}", data=labels, chunks=(rows,))
        for rows, labels in zip((7, 300, 1000), labelings, strict=True)
    ]
    for each in (stored, [da.from_zarr(array) for array in stored], [stored[0], *labelings[1:]]):
        found = data.flows(each)
        assert found.sizes == wanted.sizes
        for both, pairs in found.pairs.items():
            np.testing.assert_array_equal(pairs.counts, wanted.pairs[both].counts)
            np.testing.assert_array_equal(pairs.first, wanted.pairs[both].first)


def test_labels_are_in_memory_chunk_by_chunk():
    class Labels:
        shape, dtype, chunks = (10_000_000,), np.dtype(np.int32), (2**20,)
        asked: list[tuple[int, int]] = []  # noqa: RUF012

        def __getitem__(self, rows):
            self.asked.append((rows.start, rows.stop))
            return np.zeros(min(rows.stop, self.shape[0]) - rows.start, np.int32)

    found = data.flows([Labels(), Labels()])
    assert found.sizes == [{0: 10_000_000}] * 2
    assert max(stop - start for start, stop in Labels.asked) == 2**20
    assert len(Labels.asked) == 2 * 10


@pytest.mark.parametrize(
    ("labelings", "message"),
    [
        ([np.zeros(3, int)], "labelings must be a list of 2 to 26 arrays"),
        (np.zeros((2, 3), int), "labelings must be a list of 2 to 26 arrays"),
        ([np.zeros(3, int), np.zeros(4, int)], "of the same rows, got 3, 4 labels"),
        ([np.zeros(3, int), np.zeros(3)], r"labelings\[1\] must be \(n,\) integers.*float64"),
        ([np.zeros((3, 2), int), np.zeros(3, int)], r"labelings\[0\] must be .* shape \(3, 2\)"),
    ],
)
def test_labelings_that_cannot_be_compared_are_refused(labelings, message):
    with pytest.raises(InputError, match=message):
        data.flows(labelings)


# Pictures


@given(LABELINGS, st.integers(1, 4), st.integers(1, 6))
def test_an_alluvial_layout_holds_all_rows_and_says_what_is_not_drawn(labelings, boxes, ribbons):
    found = data.flows(labelings)
    drawn = data.alluvial(found, 0.05, boxes, ribbons)
    for column, stack in enumerate(drawn.boxes):
        assert sum(box.share for box in stack) == pytest.approx(1)
        assert sorted(each for box in stack for each in box.clusters) == sorted(found.sizes[column])
        assert len(stack) <= boxes + 2
        for above, below in pairwise(stack):
            assert below.top == pytest.approx(above.top + above.share + 0.05)
    for column, (_, share) in enumerate(drawn.left_out):
        here = [ribbon for ribbon in drawn.ribbons if ribbon.column == column]
        assert len(here) <= ribbons
        assert sum(ribbon.share for ribbon in here) + share == pytest.approx(1)


def test_ribbons_begin_and_end_within_their_boxes():
    rng = np.random.default_rng(2)
    drawn = data.alluvial(data.flows([rng.integers(0, 5, 300), rng.integers(0, 4, 300)]), 0.1)
    for ribbon in drawn.ribbons:
        for place, boxes in zip((ribbon.left, ribbon.right), drawn.boxes, strict=True):
            inside = [
                box.top - 1e-9 <= place and place + ribbon.share <= box.top + box.share + 1e-9
                for box in boxes
            ]
            assert sum(inside) == 1


def test_a_cluster_has_the_color_of_the_first_one_that_most_rows_come_from():
    first, second = np.repeat([0, 1, -1], [60, 40, 10]), np.repeat([7, 8, 9, -1], [35, 30, 35, 10])
    before, after = data.alluvial(data.flows([first, second]), 0.1).boxes
    assert {box.clusters[0]: box.color for box in before} == {0: 0, 1: 1, -1: data.NO_COLOR}
    assert {box.clusters[0]: box.color for box in after} == {7: 0, 8: 0, 9: 1, -1: data.NO_COLOR}


def texts(figure):
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=40)
    [axes] = figure.axes
    return [each.get_text() for each in axes.texts], axes


def test_a_picture_names_clusters_noise_and_what_is_left_out():
    rng = np.random.default_rng(3)
    few = np.repeat([0, 1, -1], [500, 400, 100])
    found, axes = texts(plot.flows(data.flows([few, few, np.arange(1000) % 60])))
    assert found.count("noise, 10%") == 2
    assert {"A", "B", "C", "0, 50%"} <= set(found)
    assert any(each.startswith("30 small ones, ") for each in found)
    assert [each for each in found if each.startswith("not drawn")] == [
        "not drawn: 3 flows,\n0.60% of the rows"
    ]
    assert len(axes.patches) == 3 + 3 + 31 + 3 + 90
    many = [rng.integers(0, 20, 2000) for _ in range(2)]
    found, axes = texts(plot.flows(data.flows(many), ["one", "other"]))
    assert {"one", "other"} <= set(found)
    [rest] = [each for each in found if each.startswith("not drawn")]
    assert rest.startswith(f"not drawn: {np.unique(many[0] * 20 + many[1]).size - 90} flows,")
    assert len(axes.patches) == 40 + 90


@pytest.mark.parametrize("names", ["AB", ["A"], ["A", 3], 2])
def test_names_of_a_picture_are_checked(names):
    found = data.flows([np.zeros(3, int), np.zeros(3, int)])
    with pytest.raises(InputError, match="names must be"):
        plot.flows(found, names)
    with pytest.raises(InputError, match="flows must be a Flows"):
        plot.flows([[0], [1]])
