"""Clusters of nodes: the estimator, stores and the command line."""

import json
from fractions import Fraction

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from scipy.io import mmwrite
from scipy.sparse import coo_array, csc_matrix, csr_array, save_npz
from sklearn.exceptions import ConvergenceWarning
from strategies import cut_cost

from dask_dpmeans import GraphCutDPMeans, InputError, fit, load, predict
from dask_dpmeans.cli import main

PENALTY = -0.6


@pytest.fixture(scope="module")
def graph():
    """The links of 6 blocks of 30 nodes, (180, 180)."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(6), 30)
    linked = np.triu(rng.random((180, 180)) < np.where(truth[:, np.newaxis] == truth, 0.4, 0.02), 1)
    return (linked | linked.T).astype(np.float64)


@pytest.fixture(scope="module")
def model(graph):
    return GraphCutDPMeans(PENALTY, random_state=0).fit(graph)


@pytest.fixture
def stored(graph, tmp_path):
    rows = csr_array(graph)
    group = zarr.create_group(
        tmp_path / "graph.zarr", attributes={"encoding-type": "csr_matrix", "shape": [180, 180]}
    )
    for name in ("data", "indices", "indptr"):
        group.create_array(
            name, data=getattr(rows, name), chunks=(700,), config={"write_empty_chunks": True}
        )
    return str(tmp_path / "graph.zarr")


def same(one, other):
    np.testing.assert_array_equal(np.asarray(one.labels_), np.asarray(other.labels_))
    np.testing.assert_array_equal(one.cluster_weights_, other.cluster_weights_)
    np.testing.assert_array_equal(one.cluster_inertias_, other.cluster_inertias_)
    assert (one.objective_, one.cut_, one.n_iter_) == (other.objective_, other.cut_, other.n_iter_)
    assert [record.objective for record in one.history_] == [
        record.objective for record in other.history_
    ]


@pytest.mark.parametrize("form", ["objects", "list of objects", "halves"])
def test_numbers_of_any_dtype_are_weights_of_links(graph, model, form):
    forms = {
        "objects": graph.astype(object),
        "list of objects": [[Fraction(weight) for weight in row] for row in graph.tolist()],
        "halves": graph.astype(np.float16),
    }
    same(GraphCutDPMeans(PENALTY, random_state=0).fit(forms[form]), model)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(2**70, "holds the integer 1180591620717411303424 at row 0"), ("a", "no array")],
)
def test_objects_that_are_no_exact_numbers_are_refused(graph, wrong, told):
    links = graph.astype(object)
    links[0, 1] = links[1, 0] = wrong
    with pytest.raises(InputError, match=told):
        GraphCutDPMeans(PENALTY).fit(links)


def test_attributes_belong_together(graph, model):
    assert model.n_clusters_ == 6
    assert model.labels_.dtype == np.int32
    assert model.objective_ == pytest.approx(cut_cost(graph, model.labels_, PENALTY, True))
    assert model.objective_ == pytest.approx(model.cut_ + PENALTY * model.n_clusters_)
    assert model.cluster_weights_.sum() == graph.sum()
    assert model.cluster_inertias_.sum() == pytest.approx(model.cut_)
    assert (model.n_features_in_, model.n_iter_) == (180, len(model.history_))


@pytest.mark.parametrize("form", ["list", "csr_array", "csc_matrix", "networkx"])
def test_graphs_of_every_form_give_the_same_clusters(graph, model, form):
    made = {
        "list": lambda: graph.tolist(),
        "csr_array": lambda: csr_array(graph),
        "csc_matrix": lambda: csc_matrix(graph),
        "networkx": lambda: nx.from_numpy_array(graph),
    }[form]()
    same(GraphCutDPMeans(PENALTY, random_state=0).fit(made), model)


def test_links_of_networkx_have_weights_and_loops_and_may_be_several():
    graph = nx.MultiGraph()
    graph.add_nodes_from("cab")
    graph.add_edge("a", "b", weight=2.0)
    graph.add_edge("a", "b", weight=3.0)
    graph.add_edge("a", "a", weight=7.0)
    graph.add_edge("c", "b")
    model = GraphCutDPMeans(-0.01, random_state=0).fit(graph)
    assert model.cluster_weights_.tolist() == [1 + 12 + 6]
    with pytest.raises(InputError, match=r"the graph is directed: .* take graph.to_undirected\(\)"):
        GraphCutDPMeans(PENALTY).fit(nx.DiGraph([(0, 1)]))


def test_the_karate_club_falls_in_two_along_its_quarrel():
    club = nx.karate_club_graph()
    truth = np.array([club.nodes[node]["club"] == "Officer" for node in club])
    for penalty in (-0.3, -0.4, -0.5):
        model = GraphCutDPMeans(penalty, random_state=0).fit(club)
        links = nx.to_numpy_array(club)
        assert model.objective_ <= cut_cost(links, truth.astype(int), penalty, True)
    two = GraphCutDPMeans(-0.3, random_state=0).fit(club).labels_
    assert len(set(two.tolist())) == 2
    assert max((two == truth).mean(), (two != truth).mean()) > 0.9


def test_from_store_to_store_and_back(stored, model, tmp_path):
    run = tmp_path / "run.zarr"
    found = fit(stored, run, GraphCutDPMeans(PENALTY, random_state=0))
    same(found, model)
    assert found.get_params() == model.get_params()
    same(load(run), model)
    same(fit(stored, run, GraphCutDPMeans(PENALTY, random_state=0), resume=True), model)
    with pytest.raises(InputError, match=r"begun with other parameters: penalty -0\.6, not -0\.5"):
        fit(stored, run, GraphCutDPMeans(-0.5, random_state=0), resume=True)
    with pytest.raises(InputError, match="the clusters of the run are of the nodes of its graph"):
        predict(run, stored, tmp_path / "out.zarr")


@pytest.mark.parametrize("steps", [1, 3])
def test_a_fit_that_stopped_goes_on_to_the_same_bytes(stored, model, tmp_path, steps):
    run = tmp_path / "run.zarr"
    with pytest.warns(ConvergenceWarning, match=f"stopped at max_iter={steps}"):
        fit(stored, run, GraphCutDPMeans(PENALTY, max_iter=steps, random_state=0))
    same(fit(stored, run, GraphCutDPMeans(PENALTY, random_state=0), resume=True), model)


def test_a_fit_that_stops_at_max_iter_says_so(graph):
    with pytest.warns(
        ConvergenceWarning, match="the fit stopped at max_iter=1 before it converged"
    ):
        GraphCutDPMeans(PENALTY, max_iter=1).fit(graph)


@pytest.mark.parametrize("name", ["graph.zarr", "graph.npz", "graph.mtx"])
def test_the_command_line_takes_stored_graphs(graph, stored, model, tmp_path, name):
    save_npz(tmp_path / "graph.npz", csr_array(graph))
    mmwrite(tmp_path / "graph.mtx", coo_array(graph), symmetry="symmetric")
    run = str(tmp_path / "run.zarr")
    told = CliRunner().invoke(
        main, ["graph", str(tmp_path / name), run, "--penalty", str(PENALTY), "--seed", "0"]
    )
    assert told.exit_code == 0, told.output
    assert "penalty     -0.6 on the normalized cut" in told.output
    assert "link ends)" in told.output
    same(load(run), model)
    shown = json.loads(CliRunner().invoke(main, ["show", run, "--json"]).output)
    assert shown["result"]["n_clusters"] == 6


def test_wrong_use_is_named(graph, tmp_path):
    there = tmp_path / "graph.npz"
    there.touch()
    for penalty, message in (
        ("0.5", "penalty must be < 0, got 0.5"),
        ("-2", "penalty must be > -1, got -2.0"),
    ):
        told = CliRunner().invoke(
            main, ["graph", str(there), str(tmp_path / "run.zarr"), "--penalty", penalty]
        )
        assert (told.exit_code, message in told.output) == (2, True)
    with pytest.raises(InputError, match="cut must be one of 'normalized', 'ratio', got 'minimum'"):
        GraphCutDPMeans(PENALTY, cut="minimum").fit(graph)
    damaged = tmp_path / "graph.mtx"
    damaged.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.0\n")
    with pytest.raises(InputError, match=r"graph\.mtx cannot be read as a Matrix Market file"):
        GraphCutDPMeans(PENALTY).fit(damaged)


def test_what_a_graph_has_no_use_for_is_refused(graph, stored, tmp_path):
    model = GraphCutDPMeans(PENALTY)
    for name, value in {"sample_weight": np.ones(180), "columns": [0], "scale": "std"}.items():
        with pytest.raises(
            InputError, match=f"{name} cannot be used on a graph: its links have weights themselves"
        ):
            fit(stored, tmp_path / "run.zarr", model, **{name: value})
    with pytest.raises(InputError, match="graph has dtype complex128"):
        model.fit(graph.astype(complex))
    with pytest.raises(InputError, match="masked array"):
        model.fit(np.ma.masked_equal(graph, 0.0))
    with pytest.raises(InputError, match=r"must be a square matrix, n x n, got shape \(180,\)"):
        model.fit(graph[0])


def test_a_penalty_of_any_number_type_can_be_stored(stored, tmp_path):
    found = fit(stored, tmp_path / "run.zarr", GraphCutDPMeans(np.float32(-0.5), random_state=0))
    assert found.penalty == -0.5


def test_a_sparse_graph_of_many_nodes_needs_no_room_for_dense_rows(tmp_path):
    n = 100_000
    path = coo_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n)).tocsr()
    save_npz(tmp_path / "path.npz", csr_array(path + path.T))
    command = [
        "graph",
        str(tmp_path / "path.npz"),
        str(tmp_path / "run.zarr"),
        "--penalty",
        "-0.01",
    ]
    told = CliRunner().invoke(main, [*command, "--memory-limit", "500MB", "--max-iter", "2"])
    assert told.exit_code == 0, told.output


def test_the_ratio_cut_counts_nodes(graph):
    model = GraphCutDPMeans(-5.0, cut="ratio", random_state=0).fit(graph)
    assert model.cluster_weights_.tolist() == [30.0] * 6
    assert model.objective_ == pytest.approx(cut_cost(graph, model.labels_, -5.0, False))


def test_algorithm_1_from_one_cluster_is_fitted_stored_and_resumed_like_the_rest(
    graph, stored, tmp_path
):
    asked = GraphCutDPMeans(-12.0, cut="ratio", init="mean", tol=0.0, random_state=0)
    model = GraphCutDPMeans(**asked.get_params()).fit(graph)
    assert model.n_clusters_ > 1
    assert model.objective_ == pytest.approx(cut_cost(graph, model.labels_, -12.0, False))
    assert model.sigma_ == 2 * graph.sum(axis=1).max()
    run = str(tmp_path / "run.zarr")
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1"):
        fit(stored, run, GraphCutDPMeans(**{**asked.get_params(), "max_iter": 1}))
    for found in (fit(stored, run, asked, resume=True), load(run)):
        same(found, model)
        assert (found.get_params(), found.sigma_) == (model.get_params(), model.sigma_)
    told = CliRunner().invoke(
        main, ["graph", stored, str(tmp_path / "one.zarr"), "--penalty", "-0.6", "--init", "mean"]
    )
    assert told.exit_code == 0, told.output
    assert load(tmp_path / "one.zarr").n_clusters_ == 1
    with pytest.raises(InputError, match="init must be one of 'coarsen', 'mean', got 'mena'"):
        GraphCutDPMeans(PENALTY, init="mena").fit(graph)


def test_a_link_that_is_no_number_is_told_as_a_link(graph):
    links = csr_array(graph)
    links.data[:] = np.nan
    message = r"data contains NaN \(nan\) at row 0, column \d+: the weight of a link must be a finite number$"
    with pytest.raises(InputError, match=message):
        GraphCutDPMeans(PENALTY).fit(links)


def test_a_graph_in_a_data_frame_is_told_how_to_be_passed(graph, model):
    frame = pd.DataFrame(graph)
    with pytest.raises(InputError, match=r"the graph is a data frame: .* graph.to_numpy\(\) gives"):
        GraphCutDPMeans(PENALTY).fit(frame)
    same(GraphCutDPMeans(PENALTY, random_state=0).fit(frame.to_numpy()), model)
