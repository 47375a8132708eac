"""Colors of clusters, and pictures of rows."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.colors import to_rgba_array

from dask_dpmeans import DPMeans, LinkageDPMeans
from dask_dpmeans.figures import data, plot
from dask_dpmeans.figures.plot import canvas, maps
from dask_dpmeans.figures.plot.maps import FAINTEST, marginal, shade

# Machado, Oliveira & Fernandes 2009, severity 1
VISIONS = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green cones": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def seen(colors, vision):
    """CIELAB coordinates, (m, 3), of colors, (m, 4), as people with such a vision see them."""
    rgb = colors[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ VISIONS[vision].T, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    root = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = root.T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colors, vision):
    """The smallest distance of two of these colors."""
    return min(np.linalg.norm(one - other) for one, other in combinations(seen(colors, vision), 2))


@pytest.mark.parametrize(("vision", "eight", "all_colors"), [(each, 29, 11) for each in VISIONS])
def test_colors_of_clusters_hold_for_color_blind_readers(vision, eight, all_colors):
    colors = plot.cluster_colors(np.arange(24))
    assert nearest(colors[:8], vision) > eight
    assert nearest(colors, vision) > all_colors
    grey_and_paper = np.array([*plot.cluster_colors(np.array([24])), [1.0, 1.0, 1.0, 1.0]])
    for each in colors:
        assert nearest(np.array([each, *grey_and_paper]), vision) > all_colors


def test_each_hue_comes_as_it_is_then_darker_then_lighter():
    middle, dark, light = seen(plot.cluster_colors(np.arange(24)), "all cones")[:, 0].reshape(3, 8)
    assert (dark < middle - 10).all()
    assert (light > middle).all()


def test_the_heaviest_clusters_have_colors_and_all_others_are_grey():
    weights = np.random.default_rng(0).permutation(30) + 1.0
    colors, grey = plot.colors_by_weight(weights), to_rgba_array(canvas.OTHER)[0]
    assert colors.shape == (31, 4)
    for cluster, weight in enumerate(weights):
        color = to_rgba_array(canvas.COLORS[int(30 - weight) % 24])[0]
        wanted = color if weight > 6 else grey
        np.testing.assert_array_equal(colors[cluster], wanted)
    np.testing.assert_array_equal(colors[-1], grey)  # rows without a cluster have label -1


# Shading

COUNTS = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.0, 1e-3, 1.0, 2.0, 1e9]),
)


@settings(max_examples=60, deadline=None)
@given(COUNTS)
def test_a_box_with_rows_is_never_the_background_and_one_without_is(counts):
    image = shade(counts, plot.cluster_colors(np.arange(len(counts))))
    totals = counts.sum(axis=0).T
    assert image.shape == (*totals.shape, 4)
    assert (image[totals == 0, 3] == 0).all()
    assert (image[totals > 0, 3] >= FAINTEST).all()
    assert (image >= 0).all()
    assert (image <= 1).all()


@settings(max_examples=60, deadline=None)
@given(COUNTS)
def test_a_box_of_one_cluster_has_its_color_and_one_of_several_is_between(counts):
    colors = plot.cluster_colors(np.arange(len(counts)))
    image = shade(counts, colors)
    for x, y in np.ndindex(counts.shape[1:]):
        members = np.flatnonzero(counts[:, x, y])
        if not len(members):
            continue
        inside = colors[members, :3]
        assert (image[y, x, :3] >= inside.min(axis=0) - 1e-12).all()
        assert (image[y, x, :3] <= inside.max(axis=0) + 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(COUNTS)
def test_boxes_with_more_weight_are_stronger(counts):
    totals = counts.sum(axis=0).T
    opacity = shade(counts, plot.cluster_colors(np.arange(len(counts))))[..., 3]
    for weight in np.unique(totals):
        assert len(np.unique(opacity[totals == weight])) == 1
    order = np.argsort(totals, axis=None)
    assert (np.diff(opacity.ravel()[order]) >= 0).all()
    if len(np.unique(totals[totals > 0])) > 1:
        assert opacity.max() == 1.0


def test_the_mix_of_a_box_is_by_weight():
    counts = np.array([[[3.0]], [[1.0]]])
    image = shade(counts, np.array([[1.0, 0, 0, 1], [0, 0, 1.0, 1]]))
    np.testing.assert_allclose(image[0, 0, :3], [0.75, 0, 0.25])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 99))
def test_a_marginal_keeps_the_weight_of_each_cluster(bins, most, seed):
    counts = np.random.default_rng(seed).integers(0, 9, (3, bins)).astype(float)
    means, edges = marginal(counts, -1.0, 3.0, most)
    assert means.shape == (3, len(edges) - 1)
    assert len(edges) - 1 == min(bins, most)
    widths = np.diff(edges) * bins / 4.0
    np.testing.assert_allclose(means @ widths, counts.sum(axis=1))
    np.testing.assert_allclose(edges[[0, -1]], [-1.0, 3.0])


# Maps


def places(k, seed=0, reach=10.0):
    return np.random.default_rng(seed).uniform(-reach, reach, (k, 2))


def layers_of(labels, k, most=24):
    weights = np.bincount(labels[labels >= 0], minlength=k)
    return np.array([*np.argsort(-weights, kind="stable")[:most], -1])


def scattered(n, k, seed=0, axes=("a", "b"), title="Directions that separate clusters"):
    """A `Density` of points; one row in ten has no cluster."""
    rng = np.random.default_rng(seed)
    centers, labels = places(k, seed), rng.integers(0, k, n).astype(np.int32)
    points = centers[labels] + rng.normal(0, 0.5, (n, 2))
    labels[::10] = -1
    both = np.concatenate([points, centers])
    low, high = both.min(axis=0), both.max(axis=0)
    groups, layers = np.arange(k), layers_of(labels, k)
    rest = (low, high, 0.0, n, list(axes), "units of the data")
    return data.Density(title, centers, groups, points, labels, None, layers, *rest)


def counted(n, k, bins=40, **options):
    """The same, counted in boxes."""
    found = scattered(n, k, **options)
    layer = np.full(k + 1, len(found.layers) - 1)
    layer[found.layers[:-1]] = np.arange(len(found.layers) - 1)
    counts = np.stack(
        [
            np.histogram2d(*found.points[layer[found.labels] == each].T, bins, window(found))[0]
            for each in range(len(found.layers))
        ]
    )
    return found._replace(points=None, labels=None, counts=counts, outside=3.0)


def window(found):
    return list(zip(found.low, found.high, strict=True))


def drawn(figure):
    """The axes of a figure, after it was drawn."""
    figure.draw_without_rendering()
    return figure.axes


def test_points_have_the_colors_of_their_clusters():
    found = scattered(300, 30)
    above, _, axes, right = drawn(plot.row_map(found))
    points, centers = axes.collections
    colors = maps.density_colors(found)
    pairs = {(*place, *color) for place, color in zip(*shown(points), strict=True)}
    assert pairs == {(*place, *colors[label]) for place, label in zip(*of(found), strict=True)}
    np.testing.assert_array_equal(centers.get_facecolors(), colors[:30])
    assert above.get_title("left") == "Directions that separate clusters\n300 rows, 30 centers"
    assert len(above.patches) == len(right.patches) == 25


def shown(collection):
    return np.asarray(collection.get_offsets()), collection.get_facecolors()


def of(found):
    return found.points, found.labels


def test_colors_of_a_map_are_those_of_the_weights():
    rows = np.repeat([[0.0, 0], [9, 0], [0, 9], [9, 9]], [10, 40, 30, 20], axis=0)
    model = DPMeans(4.0).fit(rows)
    found = data.density(rows, model)
    np.testing.assert_array_equal(
        maps.density_colors(found), plot.colors_by_weight(model.cluster_weights_)
    )


def test_many_rows_are_an_image_of_mixed_colors():
    found = counted(12_000, 12)
    above, _, axes, right = drawn(plot.row_map(found))
    [image] = axes.images
    colors = maps.density_colors(found)
    np.testing.assert_array_equal(image.get_array(), shade(found.counts, colors[found.layers]))
    assert tuple(image.get_extent()) == (*window(found)[0], *window(found)[1])
    assert above.get_title("left").endswith("outside of the picture: rows of weight 3")
    for side, patches in ((0, above.patches), (1, right.patches)):
        tops = patches[-1].get_data()
        other = found.counts.sum(axis=(0, 2 - side))
        np.testing.assert_allclose(tops.values, other)  # at the top of all, one upon the other
    found = [patch.get_facecolor() for patch in above.patches]
    np.testing.assert_array_equal(found, plot.cluster_colors(np.array([*range(12), 24])))


@pytest.mark.parametrize("k", [1, 3, 12, 60, 400])
@pytest.mark.parametrize("reach", [10.0, 1.0])
def test_numbers_of_clusters_overlap_neither_each_other_nor_other_centers(k, reach):
    found = scattered(500, k)
    low, high = np.full(2, -12.0), np.full(2, 12.0)
    found = found._replace(centers=places(k, 5, reach), low=low, high=high)
    figure = plot.row_map(found)
    axes = drawn(figure)[2]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert boxes
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    centers = axes.transData.transform(found.centers)
    for text, box in zip(axes.texts, boxes, strict=True):
        others = np.delete(centers, int(text.get_text()), axis=0)
        assert not any(box.contains(*place) for place in others)
    numbers = [int(text.get_text()) for text in axes.texts]
    ranks = [found.layers.tolist().index(each) for each in numbers if each in found.layers]
    assert ranks == sorted(ranks)
    if k <= 12 and reach == 10.0:
        assert sorted(numbers) == list(range(k))


def test_centers_outside_of_the_picture_are_counted_and_have_no_number():
    found = scattered(100, 5)
    found.centers[3] = 1e3
    above, _, axes, _ = drawn(plot.row_map(found))
    assert above.get_title("left").endswith("outside of the picture: 1 center")
    assert "3" not in [text.get_text() for text in axes.texts]


def test_one_column_is_a_histogram_of_the_clusters():
    found = counted(12_000, 4)
    line = found._replace(
        centers=found.centers[:, :1],
        counts=found.counts.sum(axis=2),
        low=found.low[:1],
        high=found.high[:1],
        axes=["a"],
    )
    [axes] = drawn(plot.row_map(line))
    np.testing.assert_array_equal(
        [patch.get_facecolor() for patch in axes.patches],
        plot.cluster_colors(np.array([0, 1, 2, 3, 24])),
    )
    assert {text.get_text() for text in axes.texts} == set("0123")
    assert axes.get_ylabel() == "weight of the rows in a box"


HOSTILE = ["<script>alert(1)</script>" * 4, r"$\frac{1", "a\nb $x$ $", "%s {x} \\$y$"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_never_formulas_and_lose_their_middle_if_long(name):
    figure = plot.row_map(scattered(50, 3, axes=(name, "b"), title=name))
    axes = drawn(figure)[2]
    label = axes.get_xlabel()
    assert label.endswith("\n(units of the data)")
    assert label.count("\n") == 1
    assert len(label) <= 48 + len("\n(units of the data)") + 2 * name.count("$")
    assert axes.xaxis.label._preprocess_math(label)[1] is not True


def test_a_long_name_of_a_column_keeps_its_ends():
    axes = drawn(plot.row_map(scattered(50, 3, axes=("a" * 90, "b" * 90))))[2]
    assert axes.get_xlabel() == f"{'a' * 24}…{'a' * 23}\n(units of the data)"
    assert axes.get_ylabel() == f"{'b' * 24}…{'b' * 23}\n(units of the data)"


def test_pairs_have_a_panel_each_and_share_their_axes():
    columns, rng = ["a", "b", "c", "$x$" * 20], np.random.default_rng(0)
    found = [
        counted(12_000, 9, bins=16, axes=pair)._replace(low=rng.uniform(-30, -20, 2))
        for pair in combinations(columns, 2)
    ]
    figure = plot.pairs(found, columns)
    panels = np.empty((4, 4), object)
    lower = np.tril_indices(4)
    panels[lower] = drawn(figure)
    for each, (one, other) in zip(found, combinations(range(4), 2), strict=True):
        [image] = panels[other, one].images
        assert tuple(image.get_extent())[::2] == tuple(each.low)
        assert panels[other, one].get_xlim() == panels[-1, one].get_xlim()
        assert panels[other, one].get_xlim()[0] < each.low[0]
        if one:
            assert panels[other, one].get_ylim() == panels[other, 0].get_ylim()
    for axes in panels.diagonal():
        assert len(axes.patches) == 10
    names = [axes.get_xlabel() for axes in panels[-1]]
    assert names == ["a", "b", "c", r"\$x\$\$x\$…x\$\$x\$"]
    key = [text.get_text() for text in figure.legends[0].texts]
    assert key == [str(each) for each in found[0].layers[:-1]]


def test_centers_of_micro_clusters_have_the_color_of_their_cluster_and_an_area_by_weight():
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    rows = np.concatenate([circle, 3 * circle])
    model = LinkageDPMeans(penalty=-0.02, micro_penalty=4.0, random_state=0).fit(rows)
    axes = drawn(plot.density(rows, model))[2]
    centers = axes.collections[-1]
    assert np.array_equal(centers.get_offsets(), model.micro_centers_)
    areas, weights = centers.get_sizes(), model.micro_weights_
    assert areas / areas.max() == pytest.approx(weights / weights.max())
    wanted = plot.colors_by_weight(model.cluster_weights_)[model.groups_]
    np.testing.assert_array_equal(centers.get_facecolors(), wanted)
    assert not axes.texts


def test_labels_that_would_overlap_are_left_out_or_placed_elsewhere():
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 10.0], [50.0, 0.0]])
    assert plot.choose_spaced(points, (10, 10), 10).tolist() == [False, False, True, True]
    assert plot.choose_spaced(points[[0, 1, 3]], (10, 10), 10).tolist() == [True, False, True]
    placed = plot.place_labels(points[[0, 1, 3]], (10, 10), [(0, 10), (0, -10)])
    assert placed.tolist() == [[0, 10], [0, -10], [0, 10]]


def test_no_text_is_smaller_than_nine_points():
    figures = [plot.row_map(counted(12_000, 60)), plot.pairs([counted(500, 3)], ["a", "b"])]
    for figure in figures:
        texts = figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))
        assert min(text.get_fontsize() for text in texts) >= 9
        assert figure.get_figwidth() <= 7
