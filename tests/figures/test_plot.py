"""Pictures: what is drawn, and that it renders."""

import io
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from dask_dpmeans import DPMeans, GraphCutDPMeans, HDPMeans, InputError, LinkageDPMeans
from dask_dpmeans.engine.history import Record
from dask_dpmeans.figures import data, plot
from dask_dpmeans.figures.plot import micro_clusters, trees
from dask_dpmeans.selection.penalty import penalty_path
from dask_dpmeans.selection.tree import cluster_tree


def blobs(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-10, 10, (k, d))[rng.integers(k, size=n)] + 0.5 * rng.normal(size=(n, d))


def rendered(figure):
    """The axes of a figure that was written."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=40)
        assert file.getvalue().startswith(b"\x89PNG")
    return figure.axes


@pytest.fixture(scope="module")
def rows():
    return blobs(400, 3, 4)


@pytest.fixture(scope="module")
def model(rows):
    return DPMeans(16.0).fit(rows)


def test_a_tree_joins_clusters_at_rising_penalties(model):
    found = cluster_tree(model)
    [axes] = rendered(plot.tree(found))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        str(leaf) for leaf in data.dendrogram(found).leaves
    ]
    assert axes.get_ylabel().startswith("penalty")
    assert len(axes.collections) == 2 * len(data.dendrogram(found).joins)
    with pytest.raises(InputError, match="no levels at which clusters join: it needs two clusters"):
        plot.tree(cluster_tree(DPMeans(1e6).fit(np.eye(3))))


def test_a_tree_of_many_clusters_is_drawn_from_where_they_are_few(monkeypatch):
    monkeypatch.setattr(trees, "MOST_LEAVES", 20)
    tree = cluster_tree(
        DPMeans(1e-9, random_state=0).fit(np.random.default_rng(0).normal(0, 10, (60, 2)))
    )
    [axes] = rendered(plot.tree(tree))
    level = next(level for level in tree.levels if level.n_clusters <= 20)
    assert (
        axes.get_xlabel()
        == f"{level.n_clusters} clusters at penalty {level.penalty:.4g}, of 60 of the fit"
    )
    assert axes.get_ylim()[0] == pytest.approx(level.penalty)
    assert len(axes.get_xticks()) == 0


@pytest.fixture(scope="module")
def chosen():
    return DPMeans(random_state=0).fit(blobs(300, 2, 4, seed=3))


def test_a_choice_shows_scores_stability_and_the_interval_of_each_number(chosen):
    found = chosen.choice_
    scores, stability, stairs = rendered(plot.choice(chosen))
    assert scores.get_title("left") == f"{found.n_clusters} clusters: the highest score"
    labels = [text.get_text() for text in scores.texts]
    assert labels[0] == str(found.n_clusters)
    assert set(labels) <= {str(each.n_clusters) for each in found.alternatives}
    assert list(stability.lines[1].get_ydata()) == [found.stability]
    assert list(stairs.lines[0].get_xdata()) == [found.chosen.low, found.chosen.high]
    assert stairs.get_xlabel() == "penalty: the price of one more cluster"


def test_a_choice_of_one_cluster_says_so():
    model = DPMeans(random_state=0).fit(np.random.default_rng(0).normal(size=(150, 2)))
    scores, *_ = rendered(plot.choice(model.choice_))
    assert scores.get_title("left").startswith("1 cluster: no other number")
    with pytest.raises(InputError, match="only 1 cluster was tried"):
        plot.choice(DPMeans().fit(np.ones((9, 2))))
    with pytest.raises(InputError, match='fit with penalty="auto"'):
        plot.choice(DPMeans(4.0).fit(np.eye(3)))


def test_a_path_shows_every_interval_and_marks_the_longest(rows):
    found = penalty_path(rows, np.geomspace(1, 1e4, 9), search=True, halvings=1, random_state=0)
    above, middle, below = rendered(plot.path(found))
    assert len(above.lines) == len(found.intervals) + 1
    assert f"longest interval: {found.longest} clusters" in [
        text.get_text() for text in above.get_legend().texts
    ]
    assert below.get_xscale() == "log"
    assert below.get_xlabel() == "penalty, in squared units of the rows times weight"
    assert [axes.get_ylabel() for axes in (above, middle)] == ["clusters k", "objective J"]
    assert above.get_title() == "prices, all 400 rows"


def test_a_path_of_radii_without_stability_has_two_panels(rows):
    found = penalty_path(rows, [1.0, 16.0, 1e4], random_state=0)
    assert found.longest is not None  # which says little, and is not marked
    above, below = rendered(plot.path(found))
    assert [text.get_text() for text in above.get_legend().texts] == ["penalties tried"]
    assert not above.patches
    assert below.get_xlabel() == "penalty, in squared units of the rows"


def test_a_history_has_a_lane_for_each_kind_of_change(rows):
    model = DPMeans(20.0, search=True, random_state=0).fit(rows)
    objective, clusters, changes = rendered(plot.history(model))
    np.testing.assert_array_equal(
        objective.lines[0].get_ydata(), [each.objective for each in model.history_]
    )
    np.testing.assert_array_equal(
        clusters.lines[0].get_ydata(), [each.n_clusters for each in model.history_]
    )
    names = [text.get_text() for text in changes.get_yticklabels()]
    splits = max(each.splits for each in model.history_)
    assert f"splits ≤ {splits}" in names
    assert changes.get_xlabel() == "step"


def test_a_long_name_of_a_column_loses_its_middle(rows):
    model = DPMeans(16.0).fit(rows)
    names = [letter * 90 for letter in "abcdefghij"[: rows.shape[1]]]
    axes, *_ = rendered(plot.density(rows, model, names[:2], feature_names=names))
    for label, letter in ((axes.get_xlabel(), "a"), (axes.get_ylabel(), "b")):
        assert label == f"{letter * 24}…{letter * 23}\n(units of the data)"


def test_a_history_without_changes_has_two_panels():
    steps = [Record(5.0 - step, 1.0, 2, 0, *[0] * 8, 0.0, 0.0, 0.0, 1.0, 1.0) for step in range(2)]
    assert len(rendered(plot.history(steps))) == 2


def test_sizes_show_the_radius_of_the_penalty(model, rows):
    above, below = rendered(plot.sizes(model))
    assert above.get_ylabel() == "weight, sum over rows"
    assert below.get_ylabel() == "root-mean-square\nradius, units of the data"
    assert [text.get_text() for text in below.get_legend().texts] == ["√penalty = 4"]
    assert len(below.lines[0].get_xdata()) == model.n_clusters_
    order = np.argsort(-model.cluster_weights_, kind="stable")
    assert [text.get_text() for text in below.get_xticklabels()] == [str(each) for each in order]
    assert rendered(plot.sizes(DPMeans(16.0, search=True).fit(rows)))[1].get_legend() is None


def test_a_profile_says_what_it_leaves_out():
    rows = blobs(600, 50, 45)
    model = DPMeans(100.0).fit(rows)
    assert model.n_clusters_ == 45
    axes, bar = rendered(plot.profile(model, [f"f{number}" for number in range(50)]))
    assert axes.images[0].get_array().shape == (40, 40)
    words = " ".join(axes.get_xlabel().split())
    assert "left out, differing least: clusters" in words
    assert "and 2 more" in words
    assert bar.get_ylabel() == "z-score of the center"
    scores = axes.images[0].get_array()
    assert [len(each.get_offsets()) for each in axes.collections] == [
        (scores > 1).sum(),
        (scores < -1).sum(),
    ]


def test_sharing_names_data_sets_where_they_are_few():
    sets = [blobs(20, 2, 3, seed) for seed in range(6)]
    model = HDPMeans(4.0, 40.0).fit(sets)
    axes, _ = rendered(plot.sharing(model))
    assert sorted(text.get_text() for text in axes.get_yticklabels()) == [
        str(number) for number in range(6)
    ]
    axes, _ = rendered(plot.sharing(model, max_lines=3, max_centers=2))
    assert axes.get_ylabel() == "6 data sets, by their main center\n3 lines of means"
    assert axes.get_xticklabels()[-1].get_text() == "others"


def test_few_rows_are_drawn_as_points_under_their_centers(rows, model):
    [axes] = rendered(plot.density(rows, model))
    points, centers = axes.collections
    assert len(points.get_offsets()) == 400
    assert len(centers.get_offsets()) == model.n_clusters_
    assert axes.get_title() == f"400 rows, {model.n_clusters_} centers"
    assert axes.get_xlabel().endswith("of the variance\n(units of the data)")
    assert {text.get_text() for text in axes.texts} <= {
        str(number) for number in range(model.n_clusters_)
    }


def test_many_rows_are_drawn_as_a_histogram():
    rows = blobs(11_000, 2, 4)
    rows[0] = 1e3
    model = DPMeans(16.0, random_state=0).fit(rows)
    axes, bar = rendered(plot.density(rows, model, (0, 1)))
    assert axes.images[0].get_array().sum() == len(rows) - 1
    assert bar.get_ylabel() == "weight of the rows in a box"
    assert axes.get_title().endswith("outside of the picture: rows of weight 1, 1 center")


def test_one_column_is_drawn_as_a_histogram(rows):
    [axes] = rendered(plot.density(rows[:, :1], DPMeans(16.0).fit(rows[:, :1])))
    assert axes.get_ylabel() == "weight of the rows in a box"


def test_a_graph_has_a_marker_for_each_cluster():
    graph = np.kron(np.eye(3), np.ones((5, 5)) - np.eye(5))
    graph[4, 5] = graph[5, 4] = graph[9, 10] = graph[10, 9] = 1
    labels = np.repeat([0, 1, -1], 5)
    [axes] = rendered(plot.graph(graph, labels))
    links, *nodes = axes.collections
    assert len(links.get_segments()) == 32
    assert [len(each.get_offsets()) for each in nodes] == [5, 5, 5]
    names = [text.get_text() for text in axes.get_legend().texts]
    assert names == ["no cluster (5)", "cluster 0 (5)", "cluster 1 (5)"]
    assert axes.get_title() == "15 nodes, 32 links"
    with pytest.raises(InputError, match="can be drawn"):
        plot.graph(np.eye(501), np.zeros(501, int))


def test_a_legend_of_many_clusters_names_the_nodes_of_none():
    labels = np.arange(-1, plot.NAMED + 5)
    [axes] = rendered(plot.graph(np.ones((len(labels), len(labels))) - np.eye(len(labels)), labels))
    names = [text.get_text() for text in axes.get_legend().texts]
    assert names[:2] == ["no cluster (1)", "cluster 0 (1)"]
    assert len(names) == plot.NAMED


def test_sizes_and_history_of_a_graph():
    graph = np.kron(np.eye(3), np.ones((5, 5)) - np.eye(5))
    model = GraphCutDPMeans(-0.5, random_state=0).fit(graph)
    assert [axes.get_ylabel() for axes in rendered(plot.sizes(model))] == [
        "weight, link ends",
        "part of the cut",
    ]
    rendered(plot.history(model))


def test_a_part_of_a_figure_can_be_drawn_on(model):
    figure = Figure(layout="constrained")
    left, right = figure.subfigures(1, 2)
    assert plot.sizes(model, left) is left
    assert plot.profile(model, figure=right) is right
    assert len(rendered(figure)) == 4


def test_svg_is_the_same_for_the_same_figure(model):
    first, second = (plot.svg(plot.sizes(model)) for _ in range(2))
    assert first == second
    assert first.startswith("<?xml")


def test_labels_that_would_overlap_are_left_out():
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 10.0], [50.0, 0.0]])
    assert plot.choose_spaced(points, (10, 10), 10).tolist() == [False, False, True, True]
    assert plot.choose_spaced(points[[0, 1, 3]], (10, 10), 10).tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["matplotlib", "networkx"])
def test_without_what_it_needs_the_import_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    for module in [each for each in sys.modules if each.startswith(f"{plot.__name__}.")]:
        monkeypatch.delitem(sys.modules, module)
    wanted = (
        rf'need matplotlib and networkx, and {name} is missing: pip install "dask-dpmeans\[plot\]"'
    )
    with pytest.raises(ImportError, match=wanted):
        runpy.run_path(plot.__file__)


def test_no_state_of_pyplot_is_touched():
    for module in Path(plot.__file__).parent.glob("*.py"):
        assert "pyplot" not in module.read_text().replace("state of pyplot", "")


@pytest.fixture(scope="module")
def shapes():
    rows = np.concatenate([blobs(200, 2, 3), blobs(200, 2, 1) + np.array([30.0, 0.0])])
    return rows, LinkageDPMeans(penalty=-0.02, micro_penalty=4.0, random_state=0).fit(rows)


def test_merges_have_the_colors_of_clusters_and_the_penalty_of_the_fit(shapes):
    _, model = shapes
    (axes,) = rendered(plot.merges(model))
    (lines,) = axes.collections
    colors = {tuple(color) for color in lines.get_colors()}
    assert len(colors - {(0.0, 0.0, 0.0, 1.0)}) == len(
        [size for size in np.bincount(model.groups_) if size > 1]
    )
    assert axes.lines[0].get_ydata() == [0.02, 0.02]
    assert axes.get_legend().get_texts()[0].get_text() == "penalty -0.02"
    assert axes.get_xlabel() == f"{len(model.groups_)} micro-clusters"


def test_the_first_merges_of_many_micro_clusters_are_left_out(shapes, monkeypatch):
    monkeypatch.setattr(micro_clusters, "MOST_LEAVES", 5)
    (axes,) = plot.merges(shapes[1]).axes
    assert len(axes.collections[0].get_segments()) == 4
    assert axes.get_xlabel().endswith(" micro-clusters, the last 4 merges")


def test_centers_of_micro_clusters_have_the_color_of_their_cluster_and_an_area_by_weight(shapes):
    rows, model = shapes
    (axes,) = rendered(plot.density(rows, model))
    centers = axes.collections[-1]
    assert np.array_equal(centers.get_offsets(), model.micro_centers_)
    areas, weights = centers.get_sizes(), model.micro_weights_
    assert areas / areas.max() == pytest.approx(weights / weights.max())
    colors = np.unique(np.column_stack([centers.get_facecolors(), model.groups_]), axis=0)
    assert len(colors) == model.n_clusters_
    assert axes.get_title() == f"400 rows, {len(weights)} micro-centers"
