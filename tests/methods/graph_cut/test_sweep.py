from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from strategies import chunkings, contents, cut_cost, graphs, states_of

from dask_dpmeans import reference
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.methods.graph_cut.sweep import Method
from dask_dpmeans.sources import as_source


@st.composite
def problems(draw, nodes=(2, 30)):
    """A graph and a method that suits it."""
    graph, normalized = draw(graphs(nodes=nodes)), draw(st.booleans())
    sigma = 2 * (graph.sum(axis=1) - np.diag(graph)).max()
    assume(normalized or sigma > 0)
    least = -1.0 if normalized else -sigma
    share, tol = draw(st.sampled_from([0.1, 0.4, 0.7, 0.95])), draw(st.sampled_from([0.0, 1e-4]))
    return graph, Method(least * share, normalized, tol=tol)


def source_of(graph, **options):
    return as_source(csr_array(graph), sparse=True, **options)


def sigma_of(graph, normalized):
    method = Method(-0.5, normalized)
    return method.sigma(method.inspect(source_of(graph)))


def members_of(labels):
    return [np.flatnonzero(labels == cluster).tolist() for cluster in range(int(labels.max()) + 1)]


def expected(graph, method, state):
    """The clusters that the reference makes of a state's, in the witness order of the sweep that follows."""
    after = method.step(source_of(graph, block_rows=8), state)
    opened = after.opened.tolist()
    order = opened + [node for node in range(len(graph)) if node not in opened]
    found = reference.graph_sweep(
        graph.tolist(),
        method.penalty,
        state.sigma,
        members_of(state.labels),
        order,
        method.normalized,
    )
    return after, *found


@settings(max_examples=80)
@given(problems(), st.integers(1, 5), st.integers(0, 99))
def test_a_sweep_is_a_serial_one_in_its_witness_order(problem, k, seed):
    graph, method = problem
    first = method.init(source_of(graph))
    drawn = np.random.default_rng(seed).integers(0, k, len(graph))
    linked = np.unique(np.where(first.labels < 0, -1, drawn), return_inverse=True)[1] - int(
        first.labels.min() < 0
    )
    labels = linked.astype(np.int32)
    state = type(first)(**{**vars(first), "labels": labels, "weights": np.zeros(labels.max() + 1)})
    after, found, opened = expected(graph, method, state)
    assert after.opened.tolist() == opened
    kept = sorted({label for label in found if label >= 0})
    assert after.labels.tolist() == [kept.index(label) if label >= 0 else -1 for label in found]


@given(graphs(isolated=False), st.booleans(), st.integers(1, 4), st.integers(0, 99))
def test_scores_are_distances_in_the_kernel_s_space(graph, normalized, k, seed):
    graph = graph + np.eye(len(graph)) * (graph.sum(axis=1) == 0)
    sigma = sigma_of(graph, normalized)
    kernel, weights = reference.graph_kernel(graph.tolist(), sigma, normalized)
    labels = np.random.default_rng(seed).integers(0, k, len(graph))
    for members in (each for each in members_of(labels) if each):
        for i, weight in enumerate(weights):
            own = kernel[i][i] * weight
            score = reference.graph_score(graph.tolist(), i, members, weights, sigma, normalized)
            distance = reference.implicit_distance(
                kernel, i, members, [weights[j] for j in members]
            )
            assert weight * distance == pytest.approx(own + score, abs=1e-9 * (1 + own))


@given(graphs(isolated=False), st.booleans())
def test_sigma_makes_the_kernel_positive_semidefinite(graph, normalized):
    graph = graph + np.eye(len(graph)) * (graph.sum(axis=1) == 0)
    sigma = sigma_of(graph, normalized)
    kernel, weights = reference.graph_kernel(graph.tolist(), sigma, normalized)
    halves = np.sqrt(weights)
    assert np.linalg.eigvalsh(kernel * np.outer(halves, halves)).min() > -1e-9 * (1 + sigma)


def test_sigma_is_no_larger_than_loops_make_it():
    pair = np.array([[3.0, 1.0], [1.0, 3.0]])
    for normalized, sigma in ((True, 0.0), (False, 2.0)):
        assert sigma_of(pair, normalized) == sigma
    assert sigma_of(1 - np.eye(4), True) == 1.0


@settings(max_examples=60)
@given(problems())
def test_the_objective_falls_and_is_that_of_the_labels(problem):
    graph, method = problem
    found = states_of(source_of(graph), method)
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


@settings(max_examples=20)
@given(problem=problems(nodes=(20, 40)), data=st.data())
def test_any_chunks_and_threads_give_the_same_bytes(problem, data):
    graph, method = problem
    rows, n = csr_array(graph), len(graph)
    lazy = da.from_array(graph, chunks=(data.draw(chunkings(n, empty=False)), n)).map_blocks(
        csr_array
    )
    one, two, chunked = (
        [
            contents(state)
            for state in states_of(as_source(form, sparse=True, block_rows=8, **where), method)
        ]
        for form, where in ((rows, {"threads": 1}), (rows, {"threads": 2}), (lazy, {}))
    )
    assert one == two == chunked


@given(graphs(nodes=(2, 30), loops=False), st.sampled_from([-0.99, -0.5, -0.01]))
def test_nothing_opens_under_the_normalized_cut_of_a_graph_without_loops(graph, penalty):
    [*_, last] = states_of(source_of(graph), Method(penalty))
    assert len(last.weights) == 1
    assert last.objective == pytest.approx(penalty, abs=1e-12)


def test_nodes_with_links_to_themselves_and_nodes_of_few_links_open_clusters():
    loops = 1 - np.eye(20)
    loops[3, 3] = 60.0
    *_, last = states_of(source_of(loops), Method(-0.7))
    assert last.labels.tolist() == [0, 0, 0, 1] + [0] * 16
    star = np.zeros((6, 6))
    star[0, 1:] = star[1:, 0] = 1.0
    *_, last = states_of(source_of(star), Method(-3.0, normalized=False))
    assert last.objective == pytest.approx(cut_cost(star, last.labels, -3.0, False))
    assert last.objective < -3.0


def test_a_price_below_nothing_is_refused():
    message = r"penalty must be > -sigma = -2 for init='mean' on this graph, got -2: at lambda = penalty \+ sigma <= 0"
    with pytest.raises(InputError, match=message):
        states_of(source_of(1 - np.eye(2)), Method(-2.0, normalized=False))


def test_more_clusters_than_the_most_are_an_error():
    star = np.zeros((9, 9))
    star[0, 1:] = star[1:, 0] = 1.0
    with pytest.raises(TooManyClustersError, match="more than max_clusters=2"):
        states_of(source_of(star), Method(-3.0, normalized=False, max_clusters=2))
