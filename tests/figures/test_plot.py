"""Pictures: what is drawn, and that it renders."""

import io
import runpy
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from dask_dpmeans import DPMeans, GraphCutDPMeans, HDPMeans, InputError, LinkageDPMeans
from dask_dpmeans.engine.history import Record
from dask_dpmeans.figures import data, plot
from dask_dpmeans.figures.plot import trees
from dask_dpmeans.methods.dpmeans import search, short_searches
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
    *lines, leaves = axes.collections
    assert len(lines) == 2 * len(data.dendrogram(found).joins)
    wanted = plot.colors_by_weight(model.cluster_weights_)[data.dendrogram(found).leaves]
    np.testing.assert_array_equal(leaves.get_facecolors(), wanted)
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


def test_the_names_of_forty_leaves_do_not_touch():
    rows = np.random.default_rng(0).normal(0, 10, (40, 2))
    figure = plot.tree(cluster_tree(DPMeans(1e-9, random_state=0).fit(rows)))
    [axes] = rendered(figure)
    boxes = [each.get_window_extent() for each in axes.get_xticklabels()]
    assert len(boxes) == 40
    assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_names_of_penalties_do_not_touch(scale):
    rows = scale * blobs(300, 2, 4, seed=3)
    *_, stairs = rendered(plot.choice(DPMeans(random_state=0).fit(rows)))
    boxes = [each.get_window_extent() for each in stairs.get_xticklabels() if each.get_text()]
    assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


def test_the_name_of_the_colors_fits_beside_a_profile_of_one_column():
    model = DPMeans(4.0).fit(np.array([[0.0], [9.0]]))
    _, bar = rendered(plot.profile(model))
    box = bar.yaxis.label.get_window_extent()
    assert box.y0 >= 0
    assert box.y1 <= bar.figure.bbox.y1


def test_no_share_is_above_all_rows():
    bars, _ = rendered(plot.sizes(DPMeans(1e6).fit(np.eye(3))))
    assert max(bars.get_xticks()) <= 1.0
    assert bars.get_xlim()[1] == 1.25


def test_a_negative_objective_that_falls_far_is_drawn_itself():
    [objective, _] = rendered(plot.history(records([500.0, 3.0, -0.5])))
    assert list(objective.lines[0].get_ydata()) == [500.0, 3.0, -0.5]
    assert objective.get_ylabel() == "objective J"
    assert objective.get_yscale() == "linear"


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


def test_the_stability_of_a_choice_is_bold_only_at_the_chosen_number(chosen):
    choice = chosen.choice_
    first, *others = choice.alternatives
    others = [replace(each, stability=0.8) for each in others]
    unknown = replace(choice, alternatives=(replace(first, stability=None), *others))
    scores, stability, _ = rendered(plot.choice(unknown))
    assert list(stability.lines[0].get_xdata()) == [each.n_clusters for each in others]
    assert len(stability.lines[1].get_xdata()) == 0
    tops = np.concatenate([each.get_segments() for each in scores.collections])[:, 1]
    for each in choice.alternatives:
        assert [each.n_clusters, each.score] in tops.tolist() or each.n_clusters == 1


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
    assert above.get_title("left") == "the penalty is the price of a cluster; all 400 rows"


def test_a_path_of_radii_without_stability_has_two_panels(rows):
    found = penalty_path(rows, [1.0, 16.0, 1e4], random_state=0)
    assert found.longest is not None  # which says little, and is not marked
    above, below = rendered(plot.path(found))
    assert [text.get_text() for text in above.get_legend().texts] == ["penalties tried"]
    assert not above.patches
    assert below.get_xlabel() == "penalty, in squared units of the rows"


def test_a_history_has_a_lane_for_each_kind_of_change(rows, monkeypatch):
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 0)
    monkeypatch.setattr(search, "NARROW", 0)
    model = DPMeans(20.0, search=True, random_state=0).fit(rows)
    objective, clusters, changes = rendered(plot.history(model))
    np.testing.assert_array_equal(
        clusters.lines[0].get_ydata(), [each.n_clusters for each in model.history_]
    )
    last = model.history_[-1].objective
    assert objective.get_title("left") == f"J = {last:,.6g} after {len(model.history_)} steps"
    names = [text.get_text() for text in changes.get_yticklabels()]
    splits = max(each.splits for each in model.history_)
    assert f"splits, at most {splits}" in names
    assert changes.get_xlabel() == "step"


def records(objectives, **changes):
    first = Record(0.0, 1.0, 2, *[0] * 9, *[0.0] * 3, 1.0, 1.0)
    return [replace(first, objective=each, **changes) for each in objectives]


def test_a_small_fall_of_the_objective_looks_small():
    [objective, _] = rendered(plot.history(records([1000.6, 1000.0])))
    low, high = objective.get_ylim()
    above = objective.lines[0].get_ydata()
    np.testing.assert_allclose(above, [0.0006, 0.0], atol=1e-12)
    assert above[0] < 0.1 * (high - low)
    assert "percent" in objective.get_ylabel()


def test_a_fall_to_less_than_a_tenth_is_drawn_in_the_logarithm():
    [objective, _] = rendered(plot.history(records([1000.0, 1.0])))
    assert objective.get_yscale() == "log"
    assert objective.lines[0].get_ydata().tolist() == [1000.0, 1.0]


@pytest.mark.parametrize("objectives", [[0.0, 0.0], [5.0, 0.0], [-1.0, -2.0], [1.0, -1.0]])
def test_objectives_of_any_sign_are_drawn(objectives):
    [objective, _] = rendered(plot.history(records(objectives)))
    assert objective.lines[0].get_ydata()[-1] == 0.0
    assert np.isfinite(objective.get_ylim()).all()


def test_kept_trials_are_called_so():
    changes = rendered(plot.history(records([3.0, 2.0], openings=1, swaps=1, births=4)))[-1]
    names = [text.get_text() for text in changes.get_yticklabels()]
    assert names == ["births, at most 4", "trial kept: opened some", "trial kept: another kind"]


def test_a_history_without_changes_has_two_panels():
    assert len(rendered(plot.history(records([5.0, 4.0])))) == 2


def test_sizes_are_bars_of_shares_in_the_colors_of_the_clusters(model, rows):
    bars, radii = rendered(plot.sizes(model))
    order = np.argsort(-model.cluster_weights_, kind="stable")
    shares = model.cluster_weights_[order] / 400
    assert bars.get_xlabel() == "share of the weight of the rows"
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(shares.tolist())
    assert [text.get_text() for text in bars.get_yticklabels()] == [str(each) for each in order]
    assert [text.get_text() for text in bars.texts] == [f"{share:.0%}" for share in shares]
    wanted = plot.cluster_colors(np.arange(len(order)))
    np.testing.assert_array_equal([bar.get_facecolor() for bar in bars.patches], wanted)
    np.testing.assert_array_equal(radii.collections[0].get_facecolors(), wanted)
    assert bars.get_ylim()[0] > bars.get_ylim()[1]  # the heaviest is at the top


def test_sizes_show_the_radius_of_the_penalty(model, rows):
    radii = rendered(plot.sizes(model))[1]
    assert radii.get_xlabel() == "radius (root mean square)\nunits of the data"
    assert [text.get_text() for text in radii.get_legend().texts] == ["√penalty = 4"]
    assert list(radii.lines[0].get_xdata()) == [4.0, 4.0]
    assert rendered(plot.sizes(DPMeans(16.0, search=True).fit(rows)))[1].get_legend() is None


def test_sizes_of_very_many_clusters_are_bars_and_an_area():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(350, 2)), rng.integers(1, 9, 350), axis=0)
    model = DPMeans(1e-9).fit(rows)
    bars, radii = rendered(plot.sizes(model))
    shares = np.sort(model.cluster_weights_)[::-1] / len(rows)
    *heaviest, lighter = bars.patches
    assert [bar.get_width() for bar in heaviest] == pytest.approx(shares[:300].tolist())
    np.testing.assert_allclose(lighter.get_data().values, shares[300:])
    assert len(radii.collections[0].get_offsets()) == 350


def test_sizes_of_many_clusters_have_no_numbers():
    model = DPMeans(1e-9).fit(np.random.default_rng(0).normal(size=(60, 2)))
    bars, radii = rendered(plot.sizes(model))
    assert len(bars.patches) == len(radii.collections[0].get_offsets()) == 60
    assert not bars.texts
    assert bars.get_ylabel() == "clusters by weight, the heaviest is 0"


def test_a_profile_says_what_it_leaves_out():
    rows = blobs(600, 50, 45)
    model = DPMeans(100.0).fit(rows)
    assert model.n_clusters_ == 45
    axes, bar = rendered(plot.profile(model, [f"f{number}" for number in range(50)]))
    clusters = [int(text.get_text()) for text in axes.get_xticklabels()]
    wanted = plot.colors_by_weight(model.cluster_weights_)[clusters]
    np.testing.assert_array_equal([each.get_facecolor() for each in axes.patches], wanted)
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
    assert axes.images[0].get_clim() == (0.0, data.sharing(model).shares.max())
    axes, _ = rendered(plot.sharing(model, max_lines=3, max_centers=2))
    assert axes.get_ylabel() == "6 data sets, by their main center\n3 lines of means"
    assert axes.get_xticklabels()[-1].get_text() == "others"
    assert len(axes.patches) == 2


def test_a_graph_has_a_marker_for_each_cluster():
    graph = np.kron(np.eye(3), np.ones((5, 5)) - np.eye(5))
    graph[4, 5] = graph[5, 4] = graph[9, 10] = graph[10, 9] = 1
    labels = np.repeat([0, 1, -1], 5)
    [axes] = rendered(plot.graph(graph, labels))
    links, *nodes = axes.collections
    assert len(links.get_segments()) == 32
    assert [len(each.get_offsets()) for each in nodes] == [5, 5, 5]
    names = [text.get_text() for text in axes.get_legend().texts]
    assert names == ["no cluster (5)", "cluster 1 (5)", "cluster 0 (5)"]
    found = [tuple(each.get_facecolors()[0]) for each in nodes[1:]]
    assert found == [tuple(each) for each in plot.cluster_colors(np.arange(2))]
    assert axes.get_title() == "15 nodes, 32 links"
    with pytest.raises(InputError, match="can be drawn"):
        plot.graph(np.eye(501), np.zeros(501, int))


def test_a_graph_is_in_the_colors_of_the_weights_that_are_given():
    graph, labels = np.ones((6, 6)) - np.eye(6), np.array([7, 7, 7, 2, 2, -1])
    weights = np.arange(8.0)
    weights[2] = 9.0
    for given, heaviest in ((None, 7), (weights, 2)):
        [axes] = rendered(plot.graph(graph, labels, cluster_weights=given))
        names = [text.get_text() for text in axes.get_legend().texts]
        assert names[1].startswith(f"cluster {heaviest}")
        color = axes.collections[2].get_facecolors()[0]
        np.testing.assert_array_equal(color, plot.cluster_colors(np.array([0]))[0])
    with pytest.raises(InputError, match=r"cluster_weights must be 8 numbers.*shape \(7,\)"):
        plot.graph(graph, labels, cluster_weights=weights[:7])


def test_a_legend_of_many_clusters_names_those_with_colors_and_nodes_of_none():
    labels = np.arange(-1, 29)
    [axes] = rendered(plot.graph(np.ones((30, 30)) - np.eye(30), labels))
    names = [text.get_text() for text in axes.get_legend().texts]
    assert names[:2] == ["no cluster (1)", "cluster 0 (1)"]
    assert len(names) == 25
    assert axes.get_legend().get_title().get_text() == "and 5 smaller clusters, grey"


def test_sizes_and_history_of_a_graph():
    graph = np.kron(np.eye(3), np.ones((5, 5)) - np.eye(5))
    model = GraphCutDPMeans(-0.5, random_state=0).fit(graph)
    assert [axes.get_xlabel() for axes in rendered(plot.sizes(model))] == [
        "share of the link ends",
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
    wanted = plot.colors_by_weight(model.cluster_weights_)[data.merges(model, 300).clusters]
    crossing = data.merges(model, 300).clusters < 0
    np.testing.assert_array_equal(lines.get_colors()[~crossing], wanted[~crossing])
    assert axes.get_legend().get_texts()[0].get_text() == "penalty -0.02"
    assert axes.get_xlabel() == f"{len(model.groups_)} micro-clusters"


def test_the_first_merges_of_many_micro_clusters_are_left_out(shapes, monkeypatch):
    monkeypatch.setattr(trees, "MOST_LEAVES", 5)
    (axes,) = plot.merges(shapes[1]).axes
    assert len(axes.collections[0].get_segments()) == 4
    assert axes.get_xlabel().endswith(" micro-clusters, the last 4 merges")


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, rows, **where: plot.sizes(model, **where),
        lambda model, rows, **where: plot.density(rows, model, **where),
        lambda model, rows, **where: plot.history(model, **where),
        lambda model, rows, **where: plot.tree(cluster_tree(model), **where),
    ],
)
def test_a_picture_takes_the_place_of_axes(model, rows, draw):
    whole = Figure(layout="constrained")
    left, right = whole.subplots(1, 2)
    part = draw(model, rows, ax=right)
    assert part in whole.subfigs
    assert whole.axes[0] is left
    assert right not in whole.axes
    assert len(part.axes) == len(draw(model, rows).axes)
    whole.draw_without_rendering()
    with pytest.raises(InputError, match="figure and ax are both places of the picture"):
        draw(model, rows, ax=left, figure=whole)
    for wrong in (3, Figure().add_axes((0, 0, 1, 1))):
        with pytest.raises(InputError, match=r"ax must be one of figure.subplots\(\)"):
            draw(model, rows, ax=wrong)
