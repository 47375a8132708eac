"""Clusters of nodes whose penalty is chosen from the links."""

import json
import shlex

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import GraphCutDPMeans, InputError, fit, load
from dask_dpmeans.cli import main
from dask_dpmeans.figures import data, plot
from dask_dpmeans.methods.graph_cut import choice
from dask_dpmeans.methods.graph_cut.choice import CutChoice
from dask_dpmeans.report import page


@pytest.fixture(scope="module")
def graph():
    """The links of 5 blocks of 30 nodes, (150, 150)."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(5), 30)
    linked = np.triu(rng.random((150, 150)) < np.where(truth[:, np.newaxis] == truth, 0.4, 0.02), 1)
    return (linked | linked.T).astype(np.float64)


@pytest.fixture(scope="module")
def model(graph):
    return GraphCutDPMeans(random_state=0).fit(graph)


def store_graph(graph, place, rows=700):
    """Store a graph as CSR with so many links a chunk; return the path."""
    links = csr_array(graph)
    shape = list(graph.shape)
    attributes = {"encoding-type": "csr_matrix", "shape": shape}
    group = zarr.create_group(place, attributes=attributes)
    for name in ("data", "indices", "indptr"):
        values, config = getattr(links, name), {"write_empty_chunks": True}
        group.create_array(name, data=values, chunks=(rows,), config=config)
    return str(place)


@pytest.fixture
def stored(graph, tmp_path):
    return store_graph(graph, tmp_path / "graph.zarr")


def same_fit(one, other):
    for name in ("labels_", "cluster_weights_", "cluster_inertias_"):
        here, there = (np.asarray(getattr(each, name)) for each in (one, other))
        assert here.tobytes() == there.tobytes(), name
    assert (one.objective_, one.penalty_) == (other.objective_, other.penalty_)


def same_choice(one, other):
    same_fit(one, other)
    assert one.choice_ == other.choice_
    assert one.cluster_stability_.tobytes() == other.cluster_stability_.tobytes()


def test_the_penalty_is_chosen_by_default_and_says_why(model):
    assert (model.penalty, model.n_clusters_, model.choice_.n_clusters) == ("auto", 5, 5)
    assert model.penalty_ == model.choice_.penalty == model.choice_.alternatives[0].penalty
    assert model.objective_ == pytest.approx(model.cut_ + model.penalty_ * 5)
    assert model.cluster_stability_.shape == (5,)
    assert model.cluster_stability_.min() > 0.9
    words = model.description()
    assert words.settings["choice"] == model.choice_.reason
    assert words.settings["penalty"].endswith(" on the normalized cut, chosen from the links")
    assert words.json == {"choice": model.choice_.as_json()}
    assert GraphCutDPMeans().description().settings == {"penalty": "auto on the normalized cut"}


def ring(cliques, size, between=1):
    """A ring of cliques in pairs that `between`^2 links join, and single links between pairs."""
    graph = np.kron(np.eye(cliques), np.ones((size, size)) - np.eye(size))
    for first in range(0, cliques * size, 2 * size):
        second = first + size
        graph[first : first + between, second : second + between] = graph[first, first - 1] = 1
    return np.maximum(graph, graph.T)


@pytest.mark.parametrize("cut", ["normalized", "ratio"])
def test_the_fit_is_that_at_the_chosen_penalty(cut):
    found = GraphCutDPMeans(cut=cut, random_state=0).fit(ring(8, 8))
    assert found.n_clusters_ == 8
    given = GraphCutDPMeans(found.penalty_, cut=cut, random_state=0).fit(ring(8, 8))
    same_fit(found, given)
    assert (given.choice_, given.cluster_stability_) == (None, None)
    assert found.n_passes_ > given.n_passes_


def test_a_run_without_a_penalty_is_stored_loaded_and_resumed(graph, stored, model, tmp_path):
    run = tmp_path / "run.zarr"
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2"):
        fit(stored, run, GraphCutDPMeans(max_iter=2, random_state=0))
    found = fit(stored, run, GraphCutDPMeans(random_state=0), resume=True)
    for each in (found, load(run)):
        same_choice(each, model)
        assert each.penalty == "auto"
        assert type(each.choice_) is CutChoice
        assert each.n_passes_ == found.n_passes_
    with pytest.raises(InputError, match="begun with other parameters: penalty"):
        fit(stored, run, GraphCutDPMeans(-0.123, random_state=0), resume=True)


def test_a_resumed_run_that_would_choose_otherwise_is_refused(stored, tmp_path, monkeypatch):
    run = tmp_path / "run.zarr"
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2"):
        fit(stored, run, GraphCutDPMeans(max_iter=2, random_state=0))
    monkeypatch.setattr(choice, "LEAST_SCORE", 99.0)
    with pytest.raises(InputError, match="the run was begun with the penalty -0"):
        fit(stored, run, GraphCutDPMeans(random_state=0), resume=True)


@pytest.mark.parametrize(("rows", "threads"), [(60, 1), (5000, 2)])
def test_runs_are_the_same_for_any_chunks_and_threads(graph, model, tmp_path, rows, threads):
    place = store_graph(graph, tmp_path / "other.zarr", rows)
    found = fit(place, tmp_path / "run.zarr", GraphCutDPMeans(random_state=0), threads=threads)
    same_choice(found, model)


def test_the_command_line_needs_no_penalty(stored, tmp_path):
    run = str(tmp_path / "run.zarr")
    told = CliRunner().invoke(main, ["graph", stored, run, "--seed", "0"])
    assert told.exit_code == 0, told.output
    assert "on the normalized cut, chosen from the links" in told.output
    assert "5 clusters stay the best while the penalty shrinks" in told.output
    assert "--search" not in told.output
    shown = json.loads(CliRunner().invoke(main, ["show", run, "--json"]).output)["choice"]
    assert shown["alternatives"][0]["n_clusters"] == 5
    assert (shown["rows_used"], shown["components"]) == (150, 1)
    found = load(run)
    shown_page = page(run)
    [section] = shown_page.first
    assert section.text == found.choice_.reason
    assert "halves of the links" in section.table.caption
    assert "stability" in shown_page.tables[0].columns
    wanted = found.choice_.alternatives[1]
    words = shlex.split(section.code.splitlines()[0])
    assert words[:5] == ["dask-dpmeans", "graph", stored, words[3], "--penalty"]
    assert float(words[5]) == wanted.penalty
    assert (
        CliRunner().invoke(main, [*words[1:3], str(tmp_path / "b.zarr"), *words[4:]]).exit_code == 0
    )


def test_the_picture_has_penalties_below_0(model):
    numbers = data.choice(model)
    assert numbers.headline == "5 clusters: the highest score"
    assert (numbers.high <= 0).all()
    assert (np.diff(numbers.low) > 0).all()
    assert numbers.n_clusters[np.nanargmax(numbers.scores)] == 5
    *_, stairs = plot.choice(model).axes
    assert stairs.get_xlim() == (-numbers.low[0], -numbers.high[-1])
    stairs.figure.canvas.draw()
    assert {text.get_text()[0] for text in stairs.get_xticklabels()} == {"-"}


def test_two_numbers_nearly_as_good_are_a_warning():
    model = GraphCutDPMeans(random_state=0)
    with pytest.warns(UserWarning, match=r"Nearly as good: 8 clusters") as told:
        model.fit(ring(8, 6, 2))
    assert told[0].filename == __file__
    assert (model.n_clusters_, model.choice_.nearly_as_good.n_clusters) == (4, 8)


def test_a_graph_of_two_nodes_is_one_cluster():
    model = GraphCutDPMeans(random_state=0).fit(1 - np.eye(2))
    assert (model.n_clusters_, model.cluster_stability_.tolist()) == (1, [1.0])


def test_nodes_without_links_have_no_part_in_the_normalized_cut(graph):
    wider = np.pad(graph, (0, 3))
    model = GraphCutDPMeans(random_state=0).fit(wider)
    assert (model.n_clusters_, model.choice_.components) == (5, 1)
    assert model.labels_[-3:].tolist() == [-1] * 3
    ratio = GraphCutDPMeans(cut="ratio", random_state=0).fit(np.pad(ring(8, 8), (0, 3)))
    assert (ratio.choice_.n_clusters, ratio.choice_.components) == (11, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "best"}, "penalty must be a number < 0 or 'auto', got 'best'"),
        ({"init": "mean"}, "penalty must be a number with init=\"mean\", got 'auto'"),
        ({"cut": "mincut"}, "cut must be"),
        ({"penalty": 0.5}, "penalty must be < 0, got 0.5"),
    ],
)
def test_what_cannot_be_chosen_is_refused(graph, stored, tmp_path, parameters, message):
    with pytest.raises(InputError, match=message):
        GraphCutDPMeans(**parameters).fit(graph)
    with pytest.raises(InputError, match=message):
        fit(stored, tmp_path / "run.zarr", GraphCutDPMeans(**parameters))
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("cut", ["normalized", "ratio"])
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_the_unit_of_the_weights_of_links_chooses_nothing(graph, cut, unit):
    one, other = (
        GraphCutDPMeans(cut=cut, random_state=0).fit(each) for each in (graph, unit * graph)
    )
    assert one.n_clusters_ == 5
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.choice_.evidence == other.choice_.evidence
    assert other.penalty_ == one.penalty_ * (1.0 if cut == "normalized" else unit)
