import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from strategies import cut_cost, graphs, seeds

from dask_dpmeans.engine.plan import merge_tree
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.graph_cut.contraction import (
    Contraction,
    HalvedContraction,
    contract_graph,
)
from dask_dpmeans.kernels.graph_cut.gains import (
    ALONE,
    Inspection,
    Tally,
    hashed_uniform,
    merge_partners,
    sum_links,
)
from dask_dpmeans.kernels.graph_cut.moves import (
    MoveRule,
    NodeMoves,
    NodeMoveScan,
    best_moves,
    move_nodes,
)


@st.composite
def partitions(draw, normalized=None):
    """A graph, labels of its nodes without an empty cluster, and whether the cut is the normalized one."""
    graph, normalized = draw(graphs()), draw(st.booleans()) if normalized is None else normalized
    labels = np.random.default_rng(draw(seeds)).integers(0, draw(st.integers(1, 4)), len(graph))
    linked = graph.any(axis=1) if normalized else np.ones(len(graph), bool)
    numbers = np.full(len(graph), ALONE, np.int32)
    numbers[linked] = np.unique(labels[linked], return_inverse=True)[1]
    return graph, numbers, normalized


def folded(reduction, graph, height=3):
    """The answer over blocks of so many nodes, and isolated rows in CSR."""
    rows = csr_array(graph)
    blocks = [
        Block(start, rows[start : start + height], None) for start in range(0, len(graph), height)
    ]
    return merge_tree(map(reduction.chunk, blocks), reduction.combine)


def contraction(graph, labels, k, normalized, most=99):
    masses = folded(Tally(labels, normalized), graph).whole(k).masses
    return folded(Contraction(labels, masses, normalized, most), graph).spread(np.arange(k))


PARTS = ("indptr", "indices", "data")


def digest(answer):
    """The bytes of an answer: of arrays, CSR rows and numbers, at any depth."""
    if hasattr(answer, "indptr"):
        return [getattr(answer, each).astype(np.float64).tobytes() for each in PARTS]
    if hasattr(answer, "__dataclass_fields__"):
        return [digest(each) for each in vars(answer).values()]
    if isinstance(answer, tuple):
        return [digest(each) for each in answer]
    return np.asarray(answer).tobytes() if isinstance(answer, np.ndarray) else answer


def price_of(penalty, normalized):
    return 1 + penalty if normalized else penalty


@given(partitions())
def test_totals_are_those_of_the_cut(problem):
    graph, labels, normalized = problem
    k = labels.max() + 1
    totals = folded(Tally(labels, normalized), graph).whole(k)
    for cluster in range(k):
        members = labels == cluster
        inside, degree = graph[np.ix_(members, members)].sum(), graph[members].sum()
        assert totals.kept[cluster] == (inside if normalized else inside - degree)
        assert totals.masses[cluster] == (degree if normalized else members.sum())
        assert totals.sizes[cluster] == members.sum()


@given(partitions(), st.sampled_from([-0.9, -0.5, -0.1]))
def test_a_node_proposes_the_move_that_gains_most_and_exactly_that(problem, penalty):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    before, totals = (
        cut_cost(graph, labels, penalty, normalized),
        folded(Tally(labels, normalized), graph).whole(k),
    )
    rule = MoveRule(price_of(penalty, normalized), 1e-9, normalized)
    found = NodeMoves.join(folded(NodeMoveScan(labels, totals, rule, 99), graph))
    proposed = dict(
        zip(found.rows.tolist(), zip(found.targets, found.gains, strict=True), strict=True)
    )
    for node in np.flatnonzero(labels >= 0):
        gains = {}
        alone = np.count_nonzero(labels == labels[node]) == 1
        for target in {*labels[graph[node] > 0].tolist(), k} - {
            labels[node],
            *([k] if alone else []),
        }:
            moved = labels.copy()
            moved[node] = target
            gains[target] = before - cut_cost(graph, moved, penalty, normalized)
        best = max(gains.values(), default=0.0)
        if node in proposed:
            target, gain = proposed[node]
            assert gain == pytest.approx(best, abs=1e-9)
            assert gains[k if target == ALONE else target] == pytest.approx(best, abs=1e-9)
        else:
            assert best <= 1e-8


@given(partitions())
def test_nodes_kept_within_groups_of_clusters_move_nowhere_else(problem):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    within = np.arange(k) // 2
    totals = folded(Tally(labels, normalized), graph).whole(k)
    rule = MoveRule(0.0, 1e-9, normalized)
    found = NodeMoves.join(folded(NodeMoveScan(labels, totals, rule, 99, within), graph))
    assert (within[found.targets] == within[labels[found.rows]]).all()
    assert (found.targets >= 0).all()


@given(partitions(), st.sampled_from([-0.9, -0.5, -0.1]))
def test_a_cluster_finds_the_partner_of_the_greatest_gain_and_both_see_the_same(problem, penalty):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    between = contraction(graph, labels, k, normalized)
    masses = folded(Tally(labels, normalized), graph).whole(k).masses
    partner, gains = merge_partners(between, masses, price_of(penalty, normalized), 7)
    before = cut_cost(graph, labels, penalty, normalized)
    for cluster in range(k):
        linked = np.unique(labels[(graph[labels == cluster] > 0).any(axis=0)])
        found = {}
        for other in set(linked.tolist()) - {cluster, ALONE}:
            found[other] = before - cut_cost(
                graph, np.where(labels == other, cluster, labels), penalty, normalized
            )
        if found:
            assert gains[cluster] == pytest.approx(max(found.values()), abs=1e-9)
            assert found[partner[cluster]] == pytest.approx(max(found.values()), abs=1e-9)
        else:
            assert partner[cluster] == -1


@given(partitions(), st.integers(1, 3))
def test_links_that_are_left_out_are_the_lightest_and_what_is_kept_stays(problem, most):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    whole, some = (
        contraction(graph, labels, k, normalized, limit).toarray() for limit in (k, most)
    )
    np.testing.assert_array_equal(some.diagonal(), whole.diagonal())
    others = ~np.eye(k, dtype=bool)
    assert (some <= whole)[others].all()
    assert ((some != 0) & others).sum(axis=1).max() <= most
    masses = folded(Tally(labels, normalized), graph).whole(k).masses
    at_once = (
        folded(Contraction(labels, masses, normalized, most), graph, height=99)
        .spread(np.arange(k))
        .toarray()
    )
    for cluster, noted in enumerate(at_once):
        weights = np.delete(whole[cluster] / masses, cluster)
        kept = np.delete(noted, cluster) > 0
        assert (
            np.delete(noted, cluster)[kept].tolist()
            == np.delete(whole[cluster], cluster)[kept].tolist()
        )
        assert weights[kept].min(initial=np.inf) >= weights[~kept].max(initial=-np.inf)


@given(partitions(), seeds)
def test_halves_of_the_links_add_up_to_all_in_any_blocks(problem, seed):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    whole = Contraction(labels, np.ones(k), normalized, 99)
    first, second = folded(HalvedContraction(whole, seed), graph)
    for one, other in zip(
        (first, second), folded(HalvedContraction(whole, seed), graph, 99), strict=True
    ):
        assert (one.spread(np.arange(k)) != other.spread(np.arange(k))).nnz == 0
    halves = [half.spread(np.arange(k)).toarray() for half in (first, second)]
    np.testing.assert_array_equal(sum(halves), contraction(graph, labels, k, normalized).toarray())
    for half in halves:
        np.testing.assert_array_equal(half, half.T)


def test_half_of_the_links_are_in_a_half_and_other_seeds_give_others():
    graph, nodes = np.ones((60, 60)), np.arange(60)
    whole = Contraction(nodes.astype(np.int32), np.ones(60), True, 99)
    halves = [folded(HalvedContraction(whole, seed), graph)[0].links.toarray() for seed in (1, 2)]
    assert [half.mean() for half in halves] == pytest.approx([0.5, 0.5], abs=0.05)
    assert (halves[0] == halves[1]).mean() == pytest.approx(0.5, abs=0.05)


def test_pairs_that_gain_the_same_are_matched_in_few_rounds():
    n = 4096
    ring = csr_array(np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    partner, _ = merge_partners(ring, np.full(n, 2.0), 0.5, 3)
    assert (partner[partner] == np.arange(n)).mean() > 0.5


@given(partitions(), seeds)
def test_the_graph_between_clusters_of_clusters_is_that_of_their_nodes(problem, seed):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    groups = np.unique(np.random.default_rng(seed).integers(0, 3, k), return_inverse=True)[1]
    once = contraction(graph, labels, k, normalized)
    direct = np.append(groups, ALONE).astype(np.int32)[labels]
    at_once = contraction(graph, direct, int(groups.max()) + 1, normalized)
    np.testing.assert_array_equal(contract_graph(once, groups).toarray(), at_once.toarray())


@given(graphs(), st.integers(0, 3))
def test_an_inspection_tells_a_graph_from_what_is_none(graph, change):
    found = folded(Inspection(), graph)
    np.testing.assert_array_equal(found.degrees, graph.sum(axis=1))
    assert (found.columns, found.negative, found.forward) == (len(graph), None, found.backward)
    spoiled = graph.copy()
    spoiled[0, 1] += 1 + change
    found = folded(Inspection(), spoiled)
    assert found.forward != found.backward
    spoiled[1, 0] = -1.0
    assert folded(Inspection(), spoiled).negative == (1, 0, -1.0)


def test_mixed_numbers_are_spread_and_depend_on_the_seed():
    numbers = hashed_uniform(np.arange(10_000), 1)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert abs(numbers.mean() - 0.5) < 0.02
    assert not np.isin(hashed_uniform(np.arange(10_000), 2), numbers).any()


@given(partitions(), st.sampled_from([-0.9, -0.5, -0.1]), st.integers(0, 20))
def test_nodes_move_one_after_the_other_each_by_its_exact_gain(problem, penalty, most):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    totals = folded(Tally(labels, normalized), graph).whole(k)
    rule = MoveRule(price_of(penalty, normalized), 1e-9, normalized)
    moves = NodeMoves.join(folded(NodeMoveScan(labels, totals, rule, most), graph))
    moved = labels.copy()
    after, fell = move_nodes(moves, moved, totals, rule)
    before, now = (cut_cost(graph, each, penalty, normalized) for each in (labels, moved))
    assert before - now == pytest.approx(fell, abs=1e-9)
    assert (fell > 0) == (len(moves) > 0) == (moved != labels).any()
    assert set(np.flatnonzero(moved != labels)) <= set(moves.rows.tolist())
    summed = folded(Tally(moved, normalized), graph).whole(len(after.masses))
    for one, other in zip(vars(after).values(), vars(summed).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@given(partitions(), st.integers(1, 5), st.integers(1, 7), seeds)
def test_the_heaviest_links_of_each_cluster_are_left_in_compiled_loops_and_in_numpy(
    problem, most, height, seed
):
    graph, labels, normalized = problem
    rng = np.random.default_rng(seed)
    graph = graph * np.triu(rng.random(graph.shape))
    graph = graph + np.triu(graph, 1).T
    masses = rng.random(int(labels.max()) + 1) + 0.1
    reduction = Contraction(labels, masses, normalized, most)
    found = folded(reduction, graph, height)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        plain = folded(reduction, graph, height)
    for one, other in (
        (found.clusters, plain.clusters),
        *((getattr(found.links, each), getattr(plain.links, each)) for each in PARTS),
    ):
        np.testing.assert_array_equal(one, other)
    counts = np.diff(found.links.indptr)
    own = found.links.tocsr()[np.arange(len(counts)), found.clusters] != 0
    assert (counts <= most + own).all()


@pytest.mark.parametrize(
    ("k", "nodes", "most", "wanted"),
    [
        (2**10, 2**13, 2**10, False),
        (2**10, 2**13 - 1, 2**10, True),  # few nodes in each cluster
        (2**11, 2**14, 2**11, True),  # 4,194,304 links between clusters
        (2**11, 2**14, 2**20, True),
        (2**11, 2**14, 2**10, False),
        (2**10, 2**13, 2**20, False),  # at most k links of a cluster
    ],
)
def test_workers_do_not_merge_answers_that_may_be_large(
    k: int, nodes: int, most: int, wanted: bool
) -> None:
    labels = np.arange(nodes, dtype=np.int32) % k
    assert Contraction(labels, np.ones(k), True, most).grows is wanted


@given(partitions(), st.integers(1, 7))
def test_exact_sums_are_the_same_for_blocks_of_any_height(problem, height):
    graph, labels, normalized = problem
    k = int(labels.max()) + 1
    totals = folded(Tally(labels, normalized, True), graph).whole(k)
    rule = MoveRule(0.5, 1e-9, normalized)
    for reduction in (
        Tally(labels, normalized, True),
        Contraction(labels, totals.masses, normalized, 99, True),
        Inspection(),
        NodeMoveScan(labels, totals, rule, 10**6, None, True),
    ):
        assert reduction.any_blocks
        answers = [folded(reduction, graph, each) for each in (height, len(graph))]
        if isinstance(reduction, NodeMoveScan):
            answers = [NodeMoves.join(each) for each in answers]
        one, other = map(digest, answers)
        assert one == other


@given(partitions(), seeds)
def test_links_of_merged_clusters_are_the_same_in_the_order_of_their_first_links(problem, seed):
    graph, _, _ = problem
    graph = graph * np.random.default_rng(seed).random(graph.shape)
    groups = np.random.default_rng(seed).integers(0, 3, len(graph))
    of_all = csr_array(graph), groups, 3, groups.astype(np.int32), 3
    ordered, found = sum_links(*of_all), sum_links(*of_all, ordered=False)
    np.testing.assert_array_equal(found.toarray(), ordered.toarray())
    for group in range(3):
        inside = graph[groups == group]
        firsts = dict.fromkeys(groups[column] for column in np.nonzero(inside)[1])
        at = slice(*found.indptr[group : group + 2])
        assert found.indices[at].tolist() == [int(each) for each in firsts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        plain = sum_links(*of_all, ordered=False)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(plain, part), getattr(found, part))


@given(partitions(), st.integers(0, 20))
def test_the_nodes_of_a_block_that_gain_most_move_first(problem, most):
    graph, labels, normalized = problem
    totals = folded(Tally(labels, normalized), graph).whole(int(labels.max()) + 1)
    rule = MoveRule(0.5, 1e-9, normalized)
    whole, some = (
        NodeMoves.join(folded(NodeMoveScan(labels, totals, rule, limit), graph, 99))
        for limit in (999, most)
    )
    np.testing.assert_array_equal(some.links.toarray(), graph[some.rows])
    assert bool(len(some)) == bool(len(whole))
    assert some.links.nnz <= most or len(some) == 1
    left = np.setdiff1d(whole.rows, some.rows)
    gains = dict(zip(whole.rows.tolist(), whole.gains.tolist(), strict=True))
    assert all(gains[one] >= gains[other] for one in some.rows.tolist() for other in left.tolist())


@given(partitions(), seeds)
def test_compiled_loops_give_the_bytes_of_numpy_for_weights_that_round(problem, seed):
    graph, labels, normalized = problem
    rng = np.random.default_rng(seed)
    graph = graph * np.triu(rng.random(graph.shape))
    graph = csr_array(graph + np.triu(graph, 1).T)
    k, within = int(labels.max()) + 1, None if seed % 2 else np.arange(labels.max() + 1) // 2
    block, rule = Block(0, graph, None), MoveRule(0.5, 1e-12, normalized)
    totals = Tally(labels, normalized).chunk(block).whole(k)

    def answers():
        between = Contraction(labels, totals.masses, normalized, 99).chunk(block)
        moved = labels.copy()
        moves = NodeMoves.join(NodeMoveScan(labels, totals, rule, 99, within).chunk(block))
        return [
            *vars(Tally(labels, normalized).chunk(block).totals).values(),
            *best_moves(graph, 0, labels, totals, rule, within),
            *vars(move_nodes(moves, moved, totals, rule, within)[0]).values(),
            moved,
            between.links.toarray(),
            *merge_partners(contract_graph(between.links, np.arange(k)), totals.masses, 0.5, seed),
            np.array(Inspection().chunk(block)[-2:], np.uint64),
        ]

    found = [each.tobytes() for each in answers()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        assert [each.tobytes() for each in answers()] == found
