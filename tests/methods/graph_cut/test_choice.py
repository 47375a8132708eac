"""The choice of the penalty of a cut from the links."""

import json
from dataclasses import replace
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimum import lowest_cut
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from strategies import cut_cost, graphs

from dask_dpmeans.kernels.merge_path import linked_to_others
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.graph_cut import choice, multilevel, parts
from dask_dpmeans.methods.graph_cut.choice import AutoCut, CutAlternative, CutChoice, most_alike
from dask_dpmeans.methods.graph_cut.parts import Level, Parted, convex_hull, slope
from dask_dpmeans.sources import as_source


def planted(sizes, inside, outside, seed=0):
    """A graph of blocks whose nodes have so many links inside and outside, and the blocks."""
    rng, truth = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    n, own = len(truth), np.array(sizes)[truth]
    same = truth[:, np.newaxis] == truth
    chances = np.where(same, inside / own, outside / max(n - n / len(sizes), 1))
    upper = np.triu(rng.random((n, n)) < chances, 1)
    return (upper + upper.T).astype(np.float64), truth


def chosen(graph, normalized=True, seed=0, **options):
    source = as_source(csr_array(graph), sparse=True, **options)
    return AutoCut(multilevel.Method(-0.5, normalized)).choose(source, seed)


def parted(graph, normalized=True):
    method, source = multilevel.Method(-0.5, normalized), as_source(csr_array(graph), sparse=True)
    return Parted.of(method, source, method.inspect(source), 1)


def ring_of_cliques(cliques, size):
    graph = np.kron(np.eye(cliques), np.ones((size, size)) - np.eye(size))
    ends = np.arange(cliques) * size
    graph[ends, np.roll(ends, 1) + 1] = graph[np.roll(ends, 1) + 1, ends] = 1.0
    return graph


def grid(height, width):
    paths = [np.eye(n, k=1) + np.eye(n, k=-1) for n in (height, width)]
    return np.kron(paths[0], np.eye(width)) + np.kron(np.eye(height), paths[1])


def neighbors_in_a_cloud(rows, n_neighbors):
    squares = ((rows[:, np.newaxis] - rows) ** 2).sum(axis=2)
    near = squares <= np.sort(squares, axis=1)[:, [n_neighbors]]
    return (near | near.T) & ~np.eye(len(rows), dtype=bool)


@pytest.mark.parametrize("normalized", [True, False], ids=["normalized", "ratio"])
@pytest.mark.parametrize("k", [3, 5, 30])
def test_cliques_of_a_ring_are_clusters(k, normalized):
    found = chosen(ring_of_cliques(k, 6), normalized).choice
    assert found.n_clusters == k
    assert found.evidence > 3
    assert found.stability > 0.8


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("sizes", "outside"),
    [
        ([80] * 2, 1.6),
        ([50] * 4, 1.6),
        ([40] * 10, 4.8),
        ([30] * 20, 1.6),
        ([160, 80, 40, 20], 1.6),
        ([120, 90, 70, 50, 40, 30], 1.6),
    ],
    ids=["two", "four", "weak", "many", "unequal", "six unequal"],
)
def test_planted_blocks_are_found(sizes, outside, seed):
    graph, truth = planted(sizes, 16 - outside, outside, seed)
    found = chosen(graph, seed=seed)
    assert found.choice.n_clusters == len(sizes)
    source = as_source(csr_array(graph), sparse=True)
    state = found.method.init(source)
    while not state.step or state.merging:
        state = found.method.step(source, state)
    pairs = set(zip(state.labels.tolist(), truth.tolist(), strict=True))
    assert len(pairs) <= len(sizes) + 8  # a few nodes have more links to another block
    assert len(state.weights) == len(sizes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("links", [4, 8, 16, 40])
def test_a_random_graph_has_no_clusters_but_its_components(links, seed):
    graph, _ = planted([200], links, 0, seed)
    found = chosen(graph, seed=seed).choice
    assert (
        found.n_clusters == connected_components(csr_array(graph))[0] - (~graph.any(axis=1)).sum()
    )
    assert not found.divided
    assert found.nearly_as_good is None
    if found.components == 1:
        assert found.reason.startswith(("1 cluster. The best", "1 cluster, because nothing"))


@pytest.mark.parametrize(
    "graph",
    [
        grid(12, 12),
        np.ones((30, 30)) - np.eye(30),
        neighbors_in_a_cloud(np.random.default_rng(0).random((300, 3)), 10),
        neighbors_in_a_cloud(np.random.default_rng(0).normal(size=(300, 2)), 10),
    ],
    ids=["grid", "clique", "uniform", "Gaussian"],
)
def test_a_graph_in_space_without_clusters_has_one(graph):
    found = chosen(graph.astype(float)).choice
    assert found.n_clusters == 1
    assert found.reason.startswith("1 cluster")


def test_random_graphs_that_do_as_well_are_evidence_against_clusters(monkeypatch):
    graph, _ = planted([200], 8, 0)
    monkeypatch.setattr(choice, "LEAST_SCORE", 0.0)
    found = chosen(graph).choice
    assert found.n_clusters == 1
    assert abs(found.evidence) < 3
    assert chosen(planted([50] * 4, 14, 2)[0]).choice.evidence > 6


def test_components_are_clusters_in_any_case():
    graph = np.kron(np.eye(3), planted([40], 12, 0)[0])
    found = chosen(graph).choice
    assert (found.n_clusters, found.components) == (3, 3)
    assert found.reason.startswith("3 clusters, the components of the graph")
    assert not found.divided


@given(graphs(nodes=(2, 7), isolated=False), st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_level_is_below_the_best_of_all_partitions(graph, normalized):
    linked = graph.sum(axis=1) > 0
    graph = graph[np.ix_(linked, linked)]
    found = parted(graph, normalized)
    assert found.parts.levels[0].k == connected_components(csr_array(graph))[0]
    for share in (0.01, 0.1, 0.3, 0.7):
        penalty = -share * found.scale
        components = penalty * found.parts.levels[0].k
        saving = components - lowest_cut(graph, penalty, normalized)
        assert 0 <= found.parts.saving(penalty) <= saving + 1e-9


def test_the_intervals_of_two_triangles_are_those_of_all_partitions():
    graph = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))
    graph[2, 3] = graph[3, 2] = 1.0
    two, one = parted(graph).intervals()
    assert (two.n_clusters, one.n_clusters, two.high) == (2, 1, one.low)
    assert (two.low, one.high) == (-0.75, -0.003)
    for penalty, k in [(two.low + 1e-6, 2), (two.high - 1e-6, 2), (two.high + 1e-6, 1)]:
        labels = np.arange(6) // 3 if k == 2 else np.zeros(6, int)
        lowest = lowest_cut(graph, penalty, True)
        assert cut_cost(graph, labels, penalty, True) == pytest.approx(lowest)


@given(st.lists(st.floats(0, 9), min_size=1, max_size=9))
def test_the_hull_has_the_best_level_at_each_penalty(steps):
    levels = [Level(k, cut) for k, cut in enumerate(np.cumsum([0.0, *steps]).tolist(), 1)]
    corners = convex_hull(levels)
    assert set(corners) <= set(levels)
    ties = [slope(*pair) for pair in pairwise(corners)]
    assert all(one < other for one, other in pairwise(ties))
    for price in (0.1, 1.0, 5.0):
        best = min(level.cut - price * level.k for level in levels)
        assert best == pytest.approx(min(level.cut - price * level.k for level in corners))


@given(graphs(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_alternatives_are_in_order_and_penalties_are_useful(graph, normalized):
    found = chosen(graph, normalized)
    choice = found.choice
    assert choice.n_clusters >= choice.components
    assert len({each.n_clusters for each in choice.alternatives}) == len(choice.alternatives)
    assert all(each.low < each.penalty < each.high < 0 for each in choice.alternatives)
    for one, other in pairwise(choice.intervals):
        assert one.high == other.low or other.n_clusters == choice.components
        assert one.n_clusters > other.n_clusters
    told = choice.as_json()
    assert json.loads(json.dumps(told)) == told
    assert CutChoice.from_json(told) == choice
    assert found.method.penalty == choice.penalty


@pytest.mark.parametrize("most", [8, 12])
def test_more_parts_than_can_be_merged_greedily_are_fewer_first(monkeypatch, most):
    monkeypatch.setattr(parts, "MOST_PARTS", most)
    found = parted(ring_of_cliques(16, 6))
    assert not found.complete
    assert np.count_nonzero(linked_to_others(found.parts.links)) <= most
    assert found.largest < len(found.parts.masses) == len(found.sizes)
    assert found.sizes.sum() == 96
    choice = chosen(ring_of_cliques(16, 6)).choice
    assert all(each.n_clusters <= choice.largest for each in choice.alternatives)


def test_parts_that_nothing_links_stay(monkeypatch):
    monkeypatch.setattr(parts, "MOST_PARTS", 2)
    assert chosen(np.kron(np.eye(5), np.ones((3, 3)))).choice.n_clusters == 5


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}])
def test_the_choice_is_the_same_for_any_chunks(options):
    graph, _ = planted([30] * 4, 12, 2)
    rows = da.from_array(graph, chunks=(37, 120)).map_blocks(csr_array)
    source = as_source(rows, sparse=True, block_rows=8)
    one = AutoCut(multilevel.Method(-0.5)).choose(source, 0)
    other = chosen(graph, block_rows=8, **options)
    assert other.choice == one.choice
    assert other.node_parts.tobytes() == one.node_parts.tobytes()
    for here, there in zip(one.halves, other.halves, strict=True):
        assert here.tobytes() == there.tobytes()


def test_the_stability_of_a_cluster_is_the_jaccard_index_of_the_most_alike():
    labels, others = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
    assert most_alike(labels, others).tolist() == pytest.approx([2 / 3, 0.5, 0.25])


def test_separate_blocks_are_more_stable_than_those_with_links_between():
    graph, _ = planted([40] * 4, 15, 0.2)
    rng = np.random.default_rng(1)
    between = rng.random((40, 40)) < 0.13
    graph[:40, 40:80] = np.maximum(graph[:40, 40:80], between)
    graph[40:80, :40] = graph[:40, 40:80].T
    found = chosen(graph)
    source = as_source(csr_array(graph), sparse=True)
    state = found.method.init(source)
    state = replace(state, labels=np.repeat(np.arange(4, dtype=np.int32), 40))
    stability = found.cluster_stability(source, state)
    assert stability[2:].min() >= 0.95
    assert stability[:2].max() < 0.9


ONE = CutAlternative(1, -0.01, -0.04, -0.003, 2.5, 1.0)
FIVE = CutAlternative(5, -0.3, -0.6, -0.15, 3.1, 0.99)
SEVEN = CutAlternative(7, -0.65, -0.7, -0.6, 2.9, 0.95)
INTERVALS = (Interval(5, -0.6, -0.15), Interval(1, -0.04, -0.003))


def cut_choice(*alternatives, evidence=9.0, components=1):
    return CutChoice(alternatives, evidence, 9, 9, 100, INTERVALS, components)


@pytest.mark.parametrize(
    ("given_choice", "reason"),
    [
        (
            cut_choice(FIVE),
            "5 clusters stay the best while the penalty shrinks 4 times, from -0.6 to -0.15. Larger "
            "numbers have shorter ranges; allowing for that, no other number up to 9 stays as long. Fits "
            "of halves of the links agree on the 5 clusters (adjusted Rand index 0.99). Random graphs with "
            "the same degrees divide less well: times "
            "the agreement of halves, the difference is 9.0 standard deviations, and 3 are needed.",
        ),
        (
            cut_choice(ONE, replace(FIVE, stability=0.3225), evidence=0.0),
            "1 cluster. The best division is into 5, but it is the best over a short range of "
            "penalties, or halves of the links disagree on it: score times stability is 0.99, and "
            "1 is needed.",
        ),
        (
            cut_choice(ONE, FIVE, evidence=1.25),
            "1 cluster. The best division is into 5, but random graphs with the same degrees divide "
            "about as well: times "
            "the agreement of halves, the difference is 1.2 standard deviations, and 3 are needed.",
        ),
        (
            cut_choice(ONE),
            "1 cluster, because nothing divides the links at any penalty that was tried.",
        ),
        (
            cut_choice(FIVE, components=5),
            "5 clusters, the components of the graph, because nothing divides the links at any "
            "penalty that was tried.",
        ),
        (
            cut_choice(FIVE, SEVEN, components=5),
            "5 clusters, the components of the graph. The best division is into 7, but its range of "
            "penalties is shorter, or halves of the links disagree on it.",
        ),
    ],
)
def test_a_reason_is_a_sentence(given_choice, reason):
    assert given_choice.reason == reason
    assert (given_choice.nearly_as_good is None) or "Nearly as good" in reason


def test_a_reason_names_the_next_best_and_the_limit():
    assert " Nearly as good: 7 clusters, at penalty -0.65. " in cut_choice(FIVE, SEVEN).reason
    cut_short = replace(cut_choice(SEVEN), largest=8)
    assert cut_short.reason.endswith(" More than 9 clusters were not tried.")
    cut_short = replace(cut_choice(ONE, SEVEN, evidence=0.5), largest=8)
    assert cut_short.reason.endswith(" are needed. More than 9 clusters were not tried.")
    assert cut_choice(SEVEN).reason.endswith(" is 9.0 standard deviations, and 3 are needed.")
    doubted = cut_choice(replace(FIVE, stability=0.5))
    assert doubted.reason.endswith("(adjusted Rand index 0.50), so they may be there by chance.")


@pytest.mark.parametrize("name", ["penalty", "low", "high"])
def test_a_penalty_that_no_cut_has_is_refused(name):
    told = cut_choice(FIVE).as_json()
    told["alternatives"][0][name] = 0.5
    with pytest.raises(ValueError, match=rf"choice\.{name} cannot be 0\.5"):
        CutChoice.from_json(told)
