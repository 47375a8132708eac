"""The choice of a penalty: its rule, computed again slowly, and what it is on known rows."""

import json
import math
from dataclasses import replace
from itertools import pairwise, starmap
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm, uniform
from scipy.stats import t as student
from sklearn.datasets import make_moons
from strategies import seeds

from dask_dpmeans.checks import format_beside
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.methods.dpmeans import chooser, summary
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, NEARLY, Alternative, Choice
from dask_dpmeans.methods.dpmeans.chooser import choose
from dask_dpmeans.methods.dpmeans.clouds import (
    CLEAR,
    CLOUDS,
    FEWEST_CLOUDS,
    UniformClouds,
    deviate,
    deviate_from_clouds,
)
from dask_dpmeans.methods.dpmeans.evidence import ComparisonJob, measure_evidence
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.dpmeans.summary import FLOOR, REFINED, ChoiceParameters, Summary
from dask_dpmeans.sources import as_source


def mixture(seed: int, k: int, d: int, each: int, apart: float = 8.0) -> np.ndarray:
    """Gaussians of standard deviation 1 whose means are at least so far apart."""
    rng = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    while len(means) < k:
        new = rng.uniform(-1, 1, d) * apart * max(2, k ** (1 / d)) * 1.5
        if all(np.linalg.norm(new - mean) >= apart for mean in means):
            means.append(new)
    return np.repeat(means, each, axis=0) + rng.normal(size=(k * each, d))


def disc(rng: np.random.Generator, n: int) -> np.ndarray:
    angles = rng.uniform(0, 2 * np.pi, n)
    return np.sqrt(rng.uniform(0, 1, (n, 1))) * np.c_[np.cos(angles), np.sin(angles)]


def chosen(rows: Any, weights: Any = None, seed: int = 0) -> Choice:
    return choose(as_source(rows, weights), seed).choice


def summary_rows(rows: np.ndarray, weights: Any = None, seed: int = 0) -> Summary:
    found = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
    order = np.lexsort(rows.T[::-1])
    return Summary(np.ascontiguousarray(rows[order]), found[order], False, seed)


def first_cloud(given: Summary) -> np.ndarray:
    """Return the rows of a cloud that two clusters are compared with."""
    return ComparisonJob(2)(given).cloud(0).rows


@pytest.mark.parametrize("rare", [0, 1, 40])
@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_few_different_rows_of_many_are_clusters(rare: int, unit: float) -> None:
    """Of a coreset, and of weights that are no whole numbers, equal rows are drawn one by one."""
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [9.0, 1.0]])
    rows = np.repeat(places, [4000, 4000, 4000, 4000, rare], axis=0)
    found = chosen(rows, np.full(len(rows), unit))
    assert found.n_clusters == (5 if rare else 4)
    assert chosen(rows[::40], np.full(len(rows[::40]), unit)).n_clusters == 4 + bool(rare)


def test_copies_of_a_row_go_to_halves_of_their_own() -> None:
    rows = np.array([[0.0], [1.0], [0.0], [2.0]] * 50)
    weights = np.linspace(0.5, 1.7, 200)
    given = ChoiceParameters(0, spherical=False).summary(InMemoryRows(rows, weights))
    first, second = given.parts(0)
    assert given.count == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert (first > 0).all()
    assert (second > 0).all()
    assert first + second == pytest.approx(np.bincount(rows[:, 0].astype(int), weights))


@settings(max_examples=12, deadline=None)
@given(
    k=st.integers(2, 8),
    d=st.sampled_from([1, 2, 3, 8]),
    each=st.integers(25, 70),
    apart=st.floats(8, 12),
    seed=seeds,
)
def test_separated_clusters_are_counted(k, d, each, apart, seed) -> None:
    found = chosen(mixture(seed, k, d, each, apart))
    assert found.n_clusters == k
    assert found.evidence >= EVIDENCE
    assert found.stability > 0.95


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("draw", "d"),
    [
        (lambda rng, d: rng.normal(size=(500, d)), 2),
        (lambda rng, d: rng.normal(size=(500, d)), 8),
        (lambda rng, d: rng.uniform(size=(500, d)), 2),
        (lambda rng, d: rng.uniform(size=(500, d)), 8),
        (lambda rng, d: disc(rng, 500), 2),
        (lambda rng, d: np.c_[rng.normal(size=500), np.ones(500)], 2),
        (lambda rng, d: rng.normal(size=(500, 2)) @ [[9.0, 4.0], [0.0, 0.1]], 2),
    ],
    ids=["Gaussian 2", "Gaussian 8", "square", "cube 8", "disc", "one column", "thin"],
)
def test_one_cloud_is_one_cluster(draw, d: int, seed: int) -> None:
    found = chosen(draw(np.random.default_rng(seed), d))
    assert found.n_clusters == 1
    assert found.evidence < EVIDENCE
    assert found.reason.startswith("1 cluster. ")
    if found.evidence:
        figure = format_beside(found.evidence, EVIDENCE, 1)
        assert (
            f"the difference is {figure} standard deviations, and {EVIDENCE:g} are" in found.reason
        )
    else:
        assert "fits of halves of the rows do not agree on it" in found.reason
    assert found.nearly_as_good is None
    assert len(found.alternatives) > 1


DEGENERATE = {
    "one row": ([[1.0, 2.0]], 1),
    "two rows": ([[1.0, 2.0], [3.0, 4.0]], 1),
    "three rows": ([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]], 1),
    "all equal": (np.ones((50, 3)), 1),
    "two values": (np.repeat([[0.0, 0.0], [1.0, 0.0]], 100, axis=0), 2),
    "three values": (np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]], 100, axis=0), 3),
    "three values, one of them once": (np.repeat([[0.0], [1.0], [7.0]], [60, 40, 1], axis=0), 3),
    "nine values": (np.repeat(mixture(0, 9, 2, 1), 50, axis=0), 9),
    "more columns than rows": (np.random.default_rng(0).normal(size=(20, 60)), 1),
    "two groups of wide rows": (
        np.random.default_rng(0).normal(size=(20, 60)) + 9 * (np.arange(20)[:, None] % 2),
        2,
    ),
    "constant columns": (np.c_[mixture(1, 3, 2, 40), np.ones(120), np.zeros(120)], 3),
    "far from the origin": (mixture(1, 3, 2, 40) + 1e8, 3),
    "tiny": (mixture(1, 3, 2, 40) * 1e-150, 3),
    "huge": (mixture(1, 3, 2, 40) * 1e149, 3),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_rows(name: str) -> None:
    rows, k = DEGENERATE[name]
    found = choose(as_source(np.asarray(rows)), 0)
    assert found.choice.n_clusters == k
    assert 0 < found.choice.penalty < math.inf
    assert all(np.isfinite(each).all() for each in found.halves)
    assert found.choice.tried <= len(np.unique(rows, axis=0))
    json.dumps(found.choice.as_json(), allow_nan=False)


def test_too_few_rows_for_clusters_are_said_to_be() -> None:
    assert chosen(np.ones((9, 2))).reason == "1 cluster, because all rows are equal."


@settings(max_examples=15, deadline=None)
@given(seed=seeds, exponent=st.integers(-120, 120))
def test_a_power_of_two_scales_the_penalties_alone(seed: int, exponent: int) -> None:
    rows = mixture(seed % 50, 3, 2, 20, 4.0)
    one, other = chosen(rows), chosen(rows * 2.0**exponent)
    scaled = [
        replace(
            each,
            **{name: getattr(each, name) * 4.0**exponent for name in ("penalty", "low", "high")},
        )
        for each in one.alternatives
    ]
    factor = 4.0**exponent
    intervals = [(k, low * factor, high * factor) for k, low, high in one.intervals]
    told = replace(one, alternatives=tuple(scaled), intervals=tuple(starmap(Interval, intervals)))
    assert other == told


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_a_weight_is_so_many_rows_and_the_order_of_rows_is_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = mixture(seed % 50, 3, 2, 20, 5.0)
    weights = rng.integers(0, 4, len(rows))
    repeated = np.repeat(rows, weights, axis=0)
    found = choose(as_source(rows, weights), 3)
    shuffled = choose(as_source(repeated[rng.permutation(len(repeated))]), 3)
    assert found.choice == shuffled.choice
    for mine, theirs in zip(found.halves, shuffled.halves, strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block_rows", [7, 64])
def test_blocks_and_chunks_are_nothing(dtype: Any, block_rows: int) -> None:
    rows = mixture(2, 4, 2, 40).astype(dtype)
    known = choose(as_source(rows), 5)
    lazy = da.from_array(rows, chunks=((30, 100, 30), (1, 1)))
    for source in (as_source(lazy), as_source(rows, threads=2, block_rows=block_rows)):
        found = choose(source, 5)
        assert found.choice == known.choice
        assert [each.tobytes() for each in found.halves] == [
            each.tobytes() for each in known.halves
        ]


def test_nor_are_they_with_more_columns_than_rows() -> None:
    rows = mixture(2, 3, 150, 30, 20.0)
    known = choose(as_source(rows), 5).choice
    lazy = da.from_array(rows, chunks=((30, 60), (100, 50)))
    for source in (as_source(lazy), as_source(rows, threads=2, block_rows=64)):
        assert choose(source, 5).choice == known
    assert known.n_clusters == 3


def test_a_coreset_chooses_alike_from_memory_and_from_chunks(monkeypatch) -> None:
    monkeypatch.setattr(summary, "SUMMARY_ROWS", 300)
    rows = mixture(4, 4, 3, 300).astype(np.float32)
    known = choose(as_source(rows, block_rows=128), 1)
    lazy = as_source(da.from_array(rows, chunks=((1, 699, 500), (3,))), block_rows=128)
    found = choose(lazy, 1)
    assert found.choice == known.choice
    assert (known.choice.n_clusters, known.passes) == (4, 3)
    assert 300 < known.choice.rows_used <= 600  # in three columns


@pytest.mark.parametrize(
    ("n", "d", "rows"),
    [
        (12_288, 900, 12_288),
        (12_289, 900, 6144),
        (10**9, 6, 6144),
        (10**9, 4, 8192),
        (12_289, 2, 12_288),
        (10**9, 1, 12_288),
    ],
)
def test_more_rows_choose_in_few_columns(n: int, d: int, rows: int) -> None:
    assert summary.summary_rows(n, d) == rows


def slow_intervals(inertias: list[float]) -> list[tuple[int, float, float]]:
    """Each number of clusters, and the penalties at which no other costs less: all pairs."""
    most, found = inertias[0], []
    for k, inertia in enumerate(inertias, 1):
        fewer = [(other - inertia) / (k - n) for n, other in enumerate(inertias[: k - 1], 1)]
        more = [(inertia - other) / (n - k) for n, other in enumerate(inertias[k:], k + 1)]
        low = max([FLOOR * most, *more])
        high = min([2 * most, *fewer])
        if low < high:
            found.append((k, low, high))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_all_pairs_of_costs(seed: int) -> None:
    rows = mixture(seed, 4, 2, 30, 5.0)
    given = summary_rows(rows, seed=seed)
    path = given.path(given.most_tried)
    wanted = {
        k: (low, high, math.log(high / low) * math.sqrt(k))
        for k, low, high in slow_intervals(path.inertias.tolist())
    }
    found = chosen(rows, seed=seed)
    assert len(path.inertias) == 22
    assert found.tried == len(rows) // 4
    assert found.largest == int(REFINED * 22)
    for each in found.alternatives:
        assert (each.low, each.high, each.score) == pytest.approx(wanted[each.n_clusters])
        assert each.penalty == pytest.approx(math.sqrt(each.low * each.high))
    assert found.n_clusters == max(
        (k for k in wanted if 2 <= k <= 0.8 * 22), key=lambda k: wanted[k][2]
    )
    ordered = [each.score for each in found.alternatives]
    assert ordered == sorted(ordered, reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.floats(0.01, 100), min_size=2, max_size=12, unique=True),
    numbers=st.lists(st.integers(30, 90), min_size=11, max_size=11, unique=True),
    k=st.integers(30, 90),
    low=st.floats(0.01, 50),
    factor=st.floats(1.01, 9),
)
def test_a_range_is_replicated_where_others_have_about_as_many(
    cuts: list[float], numbers: list[int], k: int, low: float, factor: float
) -> None:
    ends = sorted(cuts)
    falling = sorted(numbers, reverse=True)
    others = [Interval(n, *pair) for n, pair in zip(falling, pairwise(ends), strict=False)]
    steps = low * factor ** ((np.arange(20_000) + 0.5) / 20_000)  # even in the logarithm
    found = np.zeros(len(steps))
    for each in others:
        found[(steps > each.low) & (steps < each.high)] = each.n_clusters
    slack = 0 if k < 40 else 1 if k < 80 else 2
    wanted = np.mean(np.abs(found - k) <= slack)
    share = chooser.replicated(Interval(k, low, low * factor), others)
    assert share == pytest.approx(wanted, abs=1e-3)


def test_a_range_of_one_point_is_replicated() -> None:
    assert chooser.replicated(Interval(1, 1.0, 1.0), [Interval(1, 0.0, math.inf)]) == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_of_close_scores_the_one_with_the_highest_merit_is_chosen(monkeypatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.uniform(size=200)
    monkeypatch.setattr(chooser, "EVIDENCE", -math.inf)
    monkeypatch.setattr(chooser, "replicated", lambda each, _: shares[each.n_clusters])
    found = chosen(rng.normal(size=(300, 2)) * [3.0, 1.0], seed=seed)  # no number is clear
    compared = [each for each in found.alternatives if each.replicated is not None]
    merits = []
    for each in compared:
        assert each.replicated == pytest.approx(shares[each.n_clusters])
        merits.append(each.score * each.stability * (1 + shares[each.n_clusters]) / 2)
        assert each.merit == pytest.approx(merits[-1])
    assert len(merits) > 1
    assert merits[0] == max(merits)


@pytest.mark.parametrize(("seed", "at_once"), [(0, 1), (1, 1), (2, 1), (0, 4), (1, 3), (2, 5)])
def test_evidence_is_that_of_the_definition(seed: int, at_once: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(80, 2)) @ [[2.0, 1.0], [0.0, 0.5]] + 4 * (np.arange(80)[:, None] % 2)
    given = summary_rows(rows, seed=seed)
    k = 2

    def figures(of: Summary) -> tuple[float, float]:
        inertias = of.path(10, turns=0).inertias.tolist()
        scores = [
            math.log(high / low) * math.sqrt(n)
            for n, low, high in slow_intervals(inertias)
            if 2 <= n <= 8
        ]
        return math.log(inertias[k - 1] / inertias[0]), max(scores)

    memory = InMemoryRows(rows, None)
    summary = ChoiceParameters(seed, spherical=False).summary(memory)
    compared = ComparisonJob(k)(summary)
    mine, drawn, wanted = figures(given), [], 0.0
    for number in range(CLOUDS):
        cloud = compared.cloud(number)
        assert len(cloud.rows) == 80
        drawn.append(figures(cloud))
        if len(drawn) >= FEWEST_CLOUDS:
            means, spreads = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1)
            t = (means - mine) / (spreads * math.sqrt(1 + 1 / len(drawn)))
            deviates = norm.isf(student.sf(t, len(drawn) - 1))
            wanted = deviates[0] - deviates[1]
            if abs(wanted - EVIDENCE) > CLEAR:
                break
    found = measure_evidence(memory, summary, k, at_once)
    assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("at_once", [1, 3, 4, 16])
@pytest.mark.parametrize("known", [0, 4])
@pytest.mark.parametrize("decides", [4, 5, 9, 16])
def test_clouds_after_the_one_that_decides_do_not_count(decides, known, at_once):
    """However many are drawn at once; there are no more than `CLOUDS`."""
    figures = [(0.1 * (-1) ** number, 0.0) for number in range(decides - 1)]
    figures += [(-50.0, 0.0)] * (CLOUDS - len(figures))
    mine, asked = (-0.3, 0.0), []

    def of_clouds(numbers):
        asked.extend(numbers)
        return [figures[number] for number in numbers]

    found = deviate_from_clouds(mine, of_clouds, figures[:known], at_once=at_once)
    wanted = next(
        value
        for count in range(FEWEST_CLOUDS, CLOUDS + 1)
        for firsts, seconds in [zip(*figures[:count], strict=True)]
        for value in [deviate(firsts, mine[0]) - deviate(seconds, mine[1])]
        if abs(value - EVIDENCE) > CLEAR or count == CLOUDS
    )
    assert found == wanted
    assert asked == list(range(known, known + len(asked)))


@pytest.mark.parametrize(("n", "d"), [(2000, 3), (30, 8), (12, 100), (20, 19)])
def test_clouds_have_just_the_covariance_of_the_rows(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    weights = rng.integers(1, 3, n)
    given = summary_rows(rows, weights)
    cloud = first_cloud(given)
    assert len(cloud) == min(weights.sum(), 2**10)
    variances = np.linalg.eigvalsh(np.cov(rows.T, fweights=weights, ddof=0))[::-1]
    kept = cloud.shape[1]
    assert variances[kept:].sum() <= 1e-3 * variances.sum() < variances[kept - 1 :].sum()
    np.testing.assert_allclose(
        np.cov(cloud.T, ddof=0), np.diag(variances[:kept]), atol=1e-9 * variances[0]
    )


def test_clouds_are_uniform() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 3)) * [5.0, 2.0, 1.0]
    given = summary_rows(rows)
    cloud = first_cloud(given)
    for column in cloud.T:
        assert kstest(column, uniform(column.min(), np.ptp(column)).cdf).pvalue > 0.01


def test_clouds_of_directions_are_directions_around_their_mean() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 30)) + 1.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cloud = UniformClouds(rows, np.ones(500), True).draw(400, np.random.default_rng(1))
    np.testing.assert_allclose(np.linalg.norm(cloud, axis=1), 1.0)
    length, wanted = (np.linalg.norm(each.mean(axis=0)) for each in (cloud, rows))
    assert length == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "d"), [(12, 100), (8, 50), (30, 29), (60, 20), (40, 300)])
def test_a_few_wide_rows_are_one_cluster(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows in (rng.normal(size=(n, d)), rng.uniform(size=(n, d))):
        assert chosen(rows, seed=seed).n_clusters == 1


def test_halves_that_agree_less_than_by_chance_are_no_evidence(monkeypatch) -> None:
    monkeypatch.setattr(Summary, "agreement", lambda *_, **__: -0.5)
    monkeypatch.setattr(chooser, "_evidence", lambda *_: -20.0)
    found = chosen(np.random.default_rng(0).normal(size=(12, 100)))
    assert (found.n_clusters, found.evidence) == (1, 0.0)


def test_an_alternative_is_as_stable_as_fits_of_halves_agree() -> None:
    found = chosen(mixture(0, 4, 2, 100))
    assert found.n_clusters == 4
    assert found.stability == 1.0
    assert [each.stability for each in found.alternatives[1:]] == [None] * 4  # scores far below


@pytest.mark.parametrize("seed", range(3))
def test_a_range_is_replicated_as_far_as_fits_of_all_halves_have_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(300, 2)) * [3.0, 1.0]  # no number is clear
    found = [each for each in chosen(rows, seed=seed).alternatives if each.replicated is not None]
    given, shares = summary_rows(rows, seed=seed), {each.n_clusters: [] for each in found}
    most = given.most_tried
    for part in (half for number in range(chooser.HALVINGS) for half in given.parts(number)):
        some = part > 0
        half = replace(given, rows=given.rows[some], weights=2 * part[some])
        ends = slow_intervals(half.path(min(most, len(half.rows))).inertias.tolist())
        for each in found:
            inside = [
                math.log(min(high, each.high) / max(low, each.low))
                for k, low, high in ends
                if k == each.n_clusters and max(low, each.low) < min(high, each.high)
            ]
            shares[each.n_clusters].append(sum(inside) / math.log(each.high / each.low))
    assert len(found) > 2
    for each in found:
        if 1 < each.n_clusters < 20:  # exact, and paths of halves go farther
            assert each.replicated == pytest.approx(np.mean(shares[each.n_clusters]), abs=0.02)


def test_clear_clusters_are_replicated() -> None:
    assert chosen(mixture(0, 4, 2, 100)).chosen.replicated > 0.85


def test_the_second_best_by_merit_is_among_the_alternatives() -> None:
    ranked = [Interval(k, 1.0, 2.0) for k in range(2, 12)]
    merits = dict.fromkeys(range(2, 10), 1.0) | {2: 9.0, 8: 3.0}
    compared = {
        each: Alternative(each.n_clusters, 1.4, 1.0, 2.0, merits[each.n_clusters], 1.0)
        for each in ranked
        if each.n_clusters in merits
    }
    shown = chooser._shown(ranked, compared)
    assert [each.n_clusters for each in shown] == [2, 3, 4, 5, 8]
    compared[ranked[6]] = replace(compared[ranked[6]], score=0.5)  # 8 clusters
    assert [each.n_clusters for each in chooser._shown(ranked, compared)] == [2, 3, 4, 5, 6]


def test_of_numbers_that_are_nearly_as_good_the_best_by_merit_is_told() -> None:
    each = told(4.0, 3.9, 3.8).alternatives  # of 3, 4 and 5 clusters
    shares = [
        replace(one, replicated=share) for one, share in zip(each, (1.0, 0.2, 0.9), strict=True)
    ]
    choice = replace(told(4.0), alternatives=tuple(shares))
    assert choice.nearly_as_good == shares[2]
    assert replace(choice, alternatives=tuple(shares[:2])).nearly_as_good is None


# What is told


def told(*scores: float, evidence: float = 9.0) -> Choice:
    each = [
        Alternative(k, 2.0 * k, 1.0 * k, 4.0 * k, score, 0.5) for k, score in enumerate(scores, 3)
    ]
    return Choice(
        tuple(each), evidence, 40, 32, 100, tuple(Interval(*row) for row in ((3, 1.0, 4.0),))
    )


def test_a_second_number_that_is_nearly_as_good_is_told() -> None:
    clear, close = told(5.0, NEARLY * 5.0 - 0.01), told(5.0, NEARLY * 5.0)
    assert clear.nearly_as_good is None
    assert close.nearly_as_good == close.alternatives[1]
    assert "Nearly as good" not in clear.reason
    sure = clear.reason.index(" Fits of halves")
    second = " Nearly as good: 4 clusters, at penalty 8."
    assert close.reason == clear.reason[:sure] + second + clear.reason[sure:]
    assert (close.penalty, close.n_clusters, close.stability) == (6.0, 3, 0.5)
    assert told(5.0).nearly_as_good is None


def test_a_choice_is_what_its_json_says() -> None:
    for rows in (mixture(0, 3, 2, 30), np.ones((3, 2))):
        found = chosen(rows)
        assert Choice.from_json(json.loads(json.dumps(found.as_json()))) == found


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_fill_a_grid_are_no_clusters_for_that(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounded = np.rint(2.5 * rng.normal(size=(1000, 1)))
    assert chosen(rounded).n_clusters == 1
    assert chosen(rng.integers(0, 2, (300, 6))).n_clusters == 1
    assert chosen(np.r_[rounded, rounded + 30.0]).n_clusters == 2


def test_the_last_number_found_is_not_chosen_unless_nothing_is_left_to_divide() -> None:
    rows = make_moons(500, noise=0.05, random_state=0)[0]
    weighted = summary_rows(rows, np.full(500, 4))
    path = weighted.path(weighted.most_tried)
    assert len(path.inertias) == weighted.most_tried < len(rows)
    assert weighted.largest(path, weighted.most_tried) == int(REFINED * len(path.inertias))
    found, once = chosen(rows, np.full(500, 4)), chosen(rows)
    assert found.n_clusters == once.n_clusters
    places = summary_rows(np.arange(12.0).reshape(6, 2), np.full(6, 50))
    whole = places.path(places.most_tried)
    assert len(whole.inertias) == 6 < places.most_tried
    assert places.largest(whole, places.most_tried) == 150
