from dataclasses import replace
from itertools import pairwise
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from optimum import lowest_cut
from scipy.sparse import csr_array
from strategies import chunkings, contents, cut_cost, graphs

from dask_dpmeans import reference
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.graph_cut.gains import ALONE
from dask_dpmeans.kernels.graph_cut.moves import MoveRule, NodeMoves, NodeMoveScan
from dask_dpmeans.methods.graph_cut import partitioner, sweep
from dask_dpmeans.methods.graph_cut.multilevel import Method
from dask_dpmeans.methods.graph_cut.partitioner import Graph, Partitioner
from dask_dpmeans.sources import as_source

METHODS = st.builds(
    lambda normalized, share, tol, seed: Method(
        -share if normalized else -4 * share, normalized, tol=tol, seed=seed
    ),
    st.booleans(),
    st.sampled_from([0.1, 0.4, 0.7, 0.95]),
    st.sampled_from([0.0, 1e-4]),
    st.integers(0, 5),
)


def planted(blocks, size, inside, outside, seed=0):
    """A graph of blocks of nodes, linked with one probability inside and another one outside, and the blocks."""
    rng, truth = np.random.default_rng(seed), np.repeat(np.arange(blocks), size)
    linked = rng.random((len(truth), len(truth))) < np.where(
        truth[:, np.newaxis] == truth, inside, outside
    )
    upper = np.triu(linked, 1)
    return (upper + upper.T).astype(np.float64), truth


def states(graph, method, **options):
    return [
        step.state for step in iterate(as_source(csr_array(graph), sparse=True, **options), method)
    ]


def same_clusters(labels, truth):
    pairs = set(zip(labels.tolist(), truth.tolist(), strict=True))
    return len(pairs) == len(set(labels.tolist())) == len(set(truth.tolist()))


@given(graphs(isolated=False), st.booleans(), st.integers(1, 4), st.integers(0, 99))
def test_a_cut_is_the_objective_of_weighted_kernel_k_means_but_for_constants(
    graph, normalized, k, seed
):
    """Theorem 5.3 of Kulis & Jordan 2012, and its like for the ratio cut."""
    graph = graph + np.eye(len(graph)) * (graph.sum(axis=1) == 0)
    n, degrees, labels = (
        len(graph),
        graph.sum(axis=1),
        np.random.default_rng(seed).integers(0, k, len(graph)),
    )
    sigma = 1.0 if normalized else 2 * float(degrees.max())
    kernel, weights = reference.graph_kernel(graph.tolist(), sigma, normalized)
    assert np.linalg.eigvalsh(kernel).min() > -1e-9
    error, found = 0.0, sorted(set(labels.tolist()))
    for cluster in found:
        members = np.flatnonzero(labels == cluster).tolist()
        each = [weights[i] for i in members]
        for i, weight in zip(members, each, strict=True):
            error += weight * reference.implicit_distance(kernel, i, members, each)
    cut = reference.cut_of(graph.tolist(), labels.tolist(), normalized)
    trace = (
        np.trace(graph / np.sqrt(np.outer(degrees, degrees)))
        if normalized
        else np.trace(graph) - degrees.sum()
    )
    price = sigma + 1 if normalized else sigma
    assert error == pytest.approx(
        sigma * n + trace - price * len(found) + cut, abs=1e-8 * (1 + sigma * n)
    )


@settings(max_examples=60)
@given(graphs(nodes=(2, 30)), METHODS)
def test_the_objective_falls_and_is_that_of_the_labels(graph, method):
    found = states(graph, method)
    assert all(
        after.objective < before.objective or after.step == before.step
        for before, after in pairwise(found)
    )
    for state in found:
        cost = cut_cost(graph, state.labels, method.penalty, method.normalized)
        assert state.objective == pytest.approx(cost, abs=1e-9)
        assert sorted(set(state.labels[state.labels >= 0].tolist())) == list(
            range(len(state.weights))
        )
        degrees = graph.sum(axis=1)
        for cluster, weight in enumerate(state.weights):
            members = state.labels == cluster
            assert weight == (degrees[members].sum() if method.normalized else members.sum())


@settings(max_examples=60)
@given(graphs(nodes=(2, 30)), METHODS)
def test_in_the_end_no_node_gains_by_moving_alone(graph, method):
    method = replace(method, tol=0.0)
    source = as_source(csr_array(graph), sparse=True)
    *_, last = iterate(source, method)
    totals = method.totals(source, last.state.labels, len(last.state.weights))
    rule = MoveRule(method.price, 1e-8, method.normalized)
    found = NodeMoves.join(source.fold(NodeMoveScan(last.state.labels, totals, rule, 99)))
    assert not found.rows.size


@settings(max_examples=12)
@given(graph=graphs(nodes=(20, 40)), method=METHODS, data=st.data())
def test_any_chunks_threads_and_forms_give_the_same_bytes(graph, method, data, tmp_path_factory):
    rows, n = csr_array(graph), len(graph)
    group = zarr.create_group(
        tmp_path_factory.mktemp("graph") / "graph.zarr",
        attributes={"encoding-type": "csr_matrix", "shape": [n, n]},
    )
    for name in ("data", "indices", "indptr"):
        group.create_array(
            name,
            data=getattr(rows, name),
            chunks=(data.draw(st.integers(1, 30)),),
            config={"write_empty_chunks": True},
        )
    forms = {
        "one thread": as_source(rows, sparse=True, threads=1, block_rows=8),
        "two threads": as_source(rows.tocsc(), sparse=True, threads=2, block_rows=8),
        "Dask": as_source(
            da.from_array(graph, chunks=(data.draw(chunkings(n, empty=False)), n)).map_blocks(
                csr_array
            ),
            sparse=True,
            block_rows=8,
        ),
        "Zarr": as_source(group, sparse=True, threads=2, block_rows=8),
    }
    found = {
        name: [contents(step.state) for step in iterate(source, method)]
        for name, source in forms.items()
    }
    assert all(each == found["one thread"] for each in found.values())


@pytest.mark.parametrize("normalized", [True, False])
def test_planted_blocks_are_found(normalized):
    graph, truth = planted(8, 40, 0.4, 0.02)
    penalty = -0.6 if normalized else -10.0
    state = states(graph, Method(penalty, normalized))[-1]
    assert same_clusters(state.labels, truth)
    assert state.objective == pytest.approx(cut_cost(graph, truth, penalty, normalized))


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_split_where_that_gains_and_end_no_higher_than_the_planted_ones(seed):
    graph, truth = planted(20, 30, 0.4, 0.015)
    found = states(graph, Method(-0.85, seed=seed))
    assert sum(state.split for state in found) > 0
    assert found[-1].objective < cut_cost(graph, truth, -0.85, True)


@pytest.mark.parametrize("penalty", [-12.0, -16.0, -20.0])
def test_clusters_of_a_ratio_cut_have_nodes_whatever_is_split(penalty):
    graph, _ = planted(6, 25, 0.5, 0.2)
    found = states(graph, Method(penalty, normalized=False))
    assert all(state.weights.min() > 0 for state in found)
    assert found[-1].objective == pytest.approx(
        cut_cost(graph, found[-1].labels, penalty, False), abs=1e-9
    )


@settings(max_examples=15)
@given(graphs(nodes=(20, 40)), METHODS, st.booleans(), st.integers(0, 60))
def test_weights_that_round_and_few_links_at_once_give_the_same_bytes_without_numba(
    graph, method, whole, most
):
    upper = np.triu(graph / (1 if whole else 10))
    graph = upper + np.triu(upper, 1).T
    with mock.patch.object(partitioner, "MOVING_LINKS", most):
        one, other = (states(graph, method, threads=n, block_rows=8) for n in (1, 2))
        with mock.patch.object(numba_support, "AVAILABLE", False):
            plain = states(graph, method, block_rows=8)
    assert list(map(contents, one)) == list(map(contents, other)) == list(map(contents, plain))
    cost = cut_cost(graph, one[-1].labels, method.penalty, method.normalized)
    assert one[-1].objective == pytest.approx(cost, abs=1e-9)


@pytest.mark.parametrize("normalized", [True, False])
def test_a_graph_of_more_links_than_the_coordinator_holds_falls_in_its_blocks_too(normalized):
    graph, truth = planted(8, 40, 0.4, 0.02)
    penalty = -0.6 if normalized else -10.0
    with mock.patch.object(partitioner, "MAX_LINKS", 0):
        one, other = (
            states(graph, Method(penalty, normalized), threads=n, block_rows=32) for n in (1, 2)
        )
        whole = states(graph, Method(penalty, normalized, seed=1))
    assert list(map(contents, one)) == list(map(contents, other))
    assert all(
        after.objective < before.objective
        for before, after in pairwise(one)
        if after.step > before.step
    )
    assert same_clusters(one[-1].labels, truth)
    assert same_clusters(whole[-1].labels, truth)


def test_every_fit_ends_with_a_step_that_looks_for_splits():
    for seed in range(5):
        graph, _ = planted(4, 10, 0.6, 0.1, seed)
        with mock.patch.object(
            Partitioner, "split", autospec=True, side_effect=Partitioner.split
        ) as split:
            states(graph, Method(-0.5, seed=seed))
        assert split.called


def test_links_of_weights_that_round_are_halved_without_end_never():
    rng = np.random.default_rng(67)
    for _ in range(20):
        weights = np.triu(rng.integers(1, 9, (18, 18)) / 10, 1)
        source = as_source(csr_array(weights + weights.T), sparse=True, block_rows=4)
        known = Graph((weights + weights.T).sum(axis=1), np.count_nonzero(weights) * 2, False)
        run = Partitioner(Method(-0.5), source, known, 0.5, 0)
        run.split(
            run.partition(np.zeros(18, np.int32)), np.repeat(np.arange(3), 6).astype(np.int32)
        )
        assert run.rounds < 100


@pytest.mark.parametrize("penalty", [-0.75, -0.65, -0.55])
def test_planted_blocks_stand_over_a_range_of_penalties(penalty):
    graph, truth = planted(20, 30, 0.4, 0.015)
    assert same_clusters(states(graph, Method(penalty))[-1].labels, truth)


def ring(weights):
    """The graph of a ring: a link of each weight from a node to the next."""
    n = len(weights)
    graph = np.zeros((n, n))
    graph[np.arange(n), np.arange(1, n + 1) % n] = weights
    return graph + graph.T


def small_graph(rng):
    """A ring, path, tree, whole or random graph, or one of two parts, of 3 to 9 nodes; some have loops."""
    n = int(rng.integers(3, 10))
    ends = {
        "ring": np.roll(np.eye(n), 1, axis=1),
        "path": np.eye(n, k=1),
        "tree": np.eye(n)[[0, *(rng.integers(i) for i in range(1, n))]],
        "whole": np.ones((n, n)),
        "random": rng.random((n, n)) < rng.choice([0.3, 0.6]),
        "parts": np.kron(np.eye(2), np.ones((5, 5)))[:n, :n] * (rng.random((n, n)) < 0.8),
    }[str(rng.choice(["ring", "path", "tree", "whole", "random", "parts"]))]
    linked = np.triu(np.maximum(ends, ends.T), 1)
    linked[0, 1] = 1.0
    loops = np.diag(rng.random(n) < 0.5) if rng.random() < 0.2 else np.zeros((n, n))
    weights = rng.integers(1, 4, (n, n)) if rng.random() < 0.5 else 0.05 + rng.random((n, n))
    upper = (linked + loops) * weights
    return upper + np.triu(upper, 1).T


def test_small_graphs_end_at_the_best_of_all_partitions():
    """99 of 100, over all penalties, and the rest within a hundredth of cut + |penalty| k."""
    gaps, n = [], 150
    for seed in range(n):
        rng = np.random.default_rng(seed)
        graph, normalized = small_graph(rng), bool(seed % 2)
        reach = 1.0 if normalized else 2.0 * graph.sum(axis=1).max()
        penalty = -reach * float(rng.choice([0.05, 0.3, 0.6, 0.999])) * (1 - rng.random() / 2)
        last = states(graph, Method(penalty, normalized, seed=seed))[-1]
        best = lowest_cut(graph, penalty, normalized)
        gaps.append((last.objective - best) / (last.inertias.sum() - penalty * len(last.weights)))
    assert min(gaps) > -1e-9
    assert sum(gap > 1e-9 for gap in gaps) <= n // 100
    assert max(gaps) < 0.01


@pytest.mark.parametrize("seed", range(4))
def test_a_ring_falls_in_two_arcs_though_no_merge_of_nodes_leads_there(seed):
    last = states(ring([2, 3, 3, 1, 3, 1, 2, 1, 3]), Method(-0.24465731, seed=seed))[-1]
    assert last.objective == pytest.approx(-0.26312414, abs=1e-8)


@settings(max_examples=40)
@given(graphs(nodes=(2, 40)), st.booleans(), st.sampled_from([0.1, 0.4, 0.7, 0.95]))
def test_no_fit_ends_above_algorithm_1_on_the_graph_however_many_pieces_it_searches(
    graph, normalized, share
):
    sigma = 2 * float((graph.sum(axis=1) - np.diag(graph)).max())
    assume(normalized or sigma > 0)
    penalty = -share if normalized else -share * sigma
    sweeps = states(graph, sweep.Method(penalty, normalized))[-1]
    for most in (0, 16, 128):
        with mock.patch.object(partitioner, "MOST_PIECES", most):
            found = states(graph, Method(penalty, normalized))[-1]
        assert found.objective <= sweeps.objective + 1e-12 * (1 + abs(penalty))


def test_nodes_without_links_have_no_part_in_a_normalized_cut_and_are_clusters_of_a_ratio_cut():
    graph = np.zeros((7, 7))
    graph[:3, :3] = graph[3:6, 3:6] = 1 - np.eye(3)
    normalized, ratio = (
        states(graph, Method(-0.5))[-1],
        states(graph, Method(-0.5, normalized=False))[-1],
    )
    assert normalized.labels.tolist() == [0, 0, 0, 1, 1, 1, ALONE]
    assert normalized.objective == -1.0
    assert len(set(ratio.labels.tolist())) == 3
    assert ratio.objective == -1.5


def test_links_that_weigh_0_are_none():
    graph = np.zeros((7, 7))
    graph[:3, :3] = graph[3:6, 3:6] = 1 - np.eye(3)
    rows = csr_array(np.ones((7, 7)))
    rows.data[:] = graph.ravel()
    for normalized in (True, False):
        method = Method(-0.5, normalized)
        [*_, found], [*_, plain] = (
            list(iterate(as_source(each, sparse=True), method)) for each in (rows, csr_array(graph))
        )
        assert contents(found.state) == contents(plain.state)
    assert rows.nnz == 49


def test_a_link_of_a_node_to_itself_stays_inside():
    graph = np.array([[4.0, 1.0], [1.0, 4.0]])
    last = states(graph, Method(-0.5))[-1]
    assert (len(last.weights), last.objective) == (2, pytest.approx(0.2 + 0.2 - 1.0))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((2, 3)), "the graph must be a square matrix, n x n, got 2 x 3"),
        (np.ones((5, 3)), "n x n, got 5 x 3: .*or cluster the rows by LinkageDPMeans"),
        (
            np.array([[0.0, -2.0], [-2.0, 0.0]]),
            "links must weigh >= 0, got -2.0 from node 0 to node 1",
        ),
        (
            np.array([[0.0, 1.0], [2.0, 0.0]]),
            r"not symmetric: .* take A \+ A.T, or the larger of both",
        ),
        (np.zeros((3, 3)), "the graph has no links: there is nothing to cut"),
    ],
)
def test_what_is_no_undirected_graph_is_refused(graph, message):
    with pytest.raises(InputError, match=message):
        states(graph, Method(-0.5))


@pytest.mark.parametrize(
    ("penalty", "normalized", "message"),
    [
        (
            0.0,
            True,
            "penalty must be < 0, got 0.0: a cut is 0 for one cluster and grows with their number",
        ),
        (2.0, False, "penalty must be < 0, got 2.0"),
        (
            -1.0,
            True,
            r"penalty must be > -1, got -1.0: each cluster costs 1 \+ penalty minus the share",
        ),
        (float("nan"), True, "penalty must be a finite number, got nan"),
    ],
)
def test_penalties_that_decide_nothing_are_refused(penalty, normalized, message):
    with pytest.raises(InputError, match=message):
        Method(penalty, normalized)


def test_more_clusters_in_the_end_than_the_most_are_an_error():
    graph, _ = planted(8, 40, 0.4, 0.02)
    with pytest.raises(
        TooManyClustersError, match="makes at least 8 clusters, more than max_clusters=7"
    ):
        states(graph, Method(-0.6, max_clusters=7))
    assert len(states(graph, Method(-0.6, max_clusters=8))[-1].weights) == 8
    with pytest.raises(TooManyClustersError, match="more than max_clusters=8"):
        states(graph, Method(-0.6, max_clusters=8, max_iter=1))
