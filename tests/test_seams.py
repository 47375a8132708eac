"""The seams of divergences and prices: each of `bregman.py` and `other_price.py` goes through them alone."""

import math
from functools import cache
from itertools import pairwise

import bregman
import dask.array as da
import numpy as np
import other_price
import pytest
from optimum import partitions
from strategies import contents, states_of

from dask_dpmeans import DPMeans, InputError, fit, load, predict
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.sources import as_source

POISSON = bregman.Poisson()
SEEDS = range(34)


@pytest.fixture(autouse=True)
def poisson(monkeypatch):
    monkeypatch.setitem(METRICS, "poisson", POISSON)


def counts_of(seed, n, d=3):
    """Counts of two to four kinds of rows, all > 0."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(2.0, 8.0, (rng.integers(2, 5), d))
    return 1.0 + rng.poisson(means[rng.integers(len(means), size=n)])


def divergence(row, center):
    return sum(x * math.log(x / m) - x + m for x, m in zip(row, center, strict=True))


def squared(row, center):
    return sum((x - m) ** 2 for x, m in zip(row, center, strict=True))


def optimum(rows, weights, price, cost):
    """The least cost about the means plus price, over all partitions."""

    @cache
    def of(cluster):
        members, mine = rows[list(cluster)], weights[list(cluster)]
        mean = mine @ members / mine.sum()
        return sum(
            w * cost(row, mean) for row, w in zip(members.tolist(), mine.tolist(), strict=True)
        )

    return min(sum(map(of, each)) + price.of(len(each)) for each in partitions(len(rows)))


def serial_sweep(rows, centers, thresholds, order, cost):
    """Algorithm 1, row by row: the rows that open clusters, all centers, and the labels."""
    centers, opened, labels = list(centers), [], {}
    for row in order:
        costs = [cost(rows[row], center) for center in centers]
        if min(costs) > thresholds(len(centers)):
            opened.append(row)
            labels[row] = len(centers)
            centers.append(rows[row])
        else:
            labels[row] = costs.index(min(costs))
    return opened, centers, [labels[row] for row in range(len(rows))]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [4.0, 15.0])
def test_sweeps_of_another_divergence_are_serial_sweeps_in_memory_and_on_dask(seed, penalty):
    rows = counts_of(seed, 200)
    method = batch.Method(penalty, metric="poisson", tol=0.0)
    found = states_of(InMemoryRows(rows, None), method)
    on_dask = states_of(
        as_source(da.from_array(rows, chunks=(37, 3)), block_rows=16, threads=2), method
    )
    means = [rows.mean(axis=0).tolist()]
    for state, other in zip(found, on_dask, strict=True):
        rest = [row for row in range(len(rows)) if row not in state.opened]
        order = [*state.opened.tolist(), *rest]
        opened, centers, labels = serial_sweep(
            rows.tolist(), means, lambda _: penalty, order, divergence
        )
        alive = sorted(set(labels))
        members = [rows[np.array(labels) == c] for c in alive]
        inertia = sum(
            divergence(row, centers[c])
            for c, mine in zip(alive, members, strict=True)
            for row in mine
        )
        assert opened == state.opened.tolist()
        np.testing.assert_allclose(state.centers, np.array(centers)[alive], rtol=1e-12)
        np.testing.assert_allclose(state.means, [mine.mean(axis=0) for mine in members], rtol=1e-12)
        assert state.objective == pytest.approx(inertia + penalty * len(alive), rel=1e-12)
        np.testing.assert_allclose(other.centers, state.centers, rtol=1e-12)
        means = state.means.tolist()
    assert all(after.objective < before.objective for before, after in pairwise(found))
    assert found[-1].births == 0
    assert len(found[-1].centers) > (1 if penalty == 4.0 else 0)


def test_the_search_in_another_divergence_finds_the_best_partition_of_few_rows():
    ratios = []
    for seed in SEEDS:
        rows, penalty = counts_of(seed, 7), 2.0 + seed % 7
        weights = np.random.default_rng(seed).integers(1, 4, 7).astype(float)
        X = rows if seed % 2 else da.from_array(rows, chunks=3)
        found = DPMeans(penalty, metric="poisson", search=True, random_state=seed).fit(
            X, sample_weight=weights
        )
        labels = np.asarray(found.labels_)
        pairs = zip(rows, found.cluster_centers_[labels], weights, strict=True)
        inertia = sum(weight * divergence(row, center) for row, center, weight in pairs)
        assert found.objective_ == pytest.approx(inertia + penalty * found.n_clusters_, rel=1e-9)
        assert all(after.objective < before.objective for before, after in pairwise(found.history_))
        ratios.append(found.objective_ / optimum(rows, weights, LinearPrice(penalty), divergence))
    assert max(ratios) <= 1.03
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97


def test_moves_in_another_divergence_gain_what_they_say_without_moves_of_single_rows(monkeypatch):
    monkeypatch.setattr(search, "EXCHANGES_BELOW", 0)
    moves = np.zeros(6, np.int64)
    for seed in range(8):
        found = states_of(
            InMemoryRows(counts_of(seed, 300), None),
            search.Method(20.0, metric="poisson", seed=seed),
        )
        for before, after in pairwise(found):
            if np.any(np.array(after.moves)[:3]):
                assert before.objective - after.objective >= after.gains.sum() * (1 - 1e-9)
            moves += np.array(after.moves)
    assert (moves[[0, 1]] > 0).all()


def test_what_a_merge_and_moves_of_one_row_change_is_what_recomputing_gives():
    rows = counts_of(0, 12)
    first, second = rows[:5], rows[5:]

    def cost(members):
        return sum(divergence(row, members.mean(axis=0)) for row in members)

    means = np.stack([first.mean(axis=0), second.mean(axis=0)])
    masses = np.array([5.0, 7.0])
    rise = POISSON.rises(masses[np.newaxis], means[np.newaxis])[0]
    assert rise == pytest.approx(cost(rows) - cost(first) - cost(second))
    one = np.ones(1)
    joining = POISSON.joining(second[:1], one, masses, means)[0, 0]
    assert joining == pytest.approx(cost(rows[:6]) - cost(first))
    leaving = POISSON.leaving(second[:1], one, masses[1:], means[1:])[0]
    assert leaving == pytest.approx(cost(second) - cost(second[1:]))


@pytest.mark.parametrize("search_", [False, True])
def test_a_run_in_another_divergence_is_stored_loaded_and_predicts(tmp_path, search_):
    rows = counts_of(1, 300)
    np.save(tmp_path / "rows.npy", rows)
    model = DPMeans(12.0, metric="poisson", search=search_, random_state=0)
    run = fit(str(tmp_path / "rows.npy"), str(tmp_path / "run.zarr"), model)
    wanted = POISSON.nearest(rows, run.cluster_centers_)
    loaded = load(str(tmp_path / "run.zarr"))
    assert (
        loaded.predict(rows).tolist() == np.asarray(loaded.labels_).tolist() == wanted[0].tolist()
    )
    assert loaded.score(rows) == pytest.approx(-wanted[1].sum())
    np.testing.assert_allclose(loaded.transform(rows[:9]).min(axis=1), wanted[1][:9])
    done = predict(
        str(tmp_path / "run.zarr"), str(tmp_path / "rows.npy"), str(tmp_path / "out.zarr")
    )
    assert done.n_rows == 300


def test_a_coreset_in_another_divergence_is_an_error_that_says_why():
    with pytest.raises(
        InputError, match="coreset_rows must be 0 or None with metric='poisson', got 500"
    ):
        search.Method(1.0, metric="poisson", coreset_rows=500)


# Prices


@pytest.mark.parametrize("kind", [other_price.ConcaveSearch, other_price.ConvexSearch])
def test_the_search_at_another_price_finds_the_best_partition_of_few_rows(kind):
    ratios = []
    for seed in SEEDS:
        rows = np.random.default_rng(seed).normal(size=(7, 2)).round(2)
        method = kind(0.2 + 0.2 * (seed % 5), seed=seed)
        source = InMemoryRows(rows, None)
        if seed % 2:
            source = as_source(da.from_array(rows, chunks=3))
        end = states_of(source, method)[-1]
        inertia = math.fsum(end.inertias)
        assert end.objective == pytest.approx(
            inertia + method.price.of(len(end.centers)), rel=1e-12
        )
        ratios.append(end.objective / optimum(rows, np.ones(7), method.price, squared))
    assert max(ratios) <= 1.03
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97


@pytest.mark.parametrize("kind", [other_price.ConcaveSweeps, other_price.ConvexSweeps])
@pytest.mark.parametrize("seed", range(8))
def test_sweeps_at_another_price_open_rows_that_cost_more_than_the_next_cluster(kind, seed):
    rows = np.random.default_rng(seed).normal(size=(300, 2))
    method = kind(0.4, tol=0.0)
    source = as_source(da.from_array(rows, chunks=(70, 2)), block_rows=16, threads=2)
    found = states_of(source, method)
    alone = states_of(as_source(rows, block_rows=16, threads=1), method)
    assert [contents(state) for state in found] == [contents(state) for state in alone]
    centers = np.array([rows.mean(axis=0)])
    for state in found:
        for row in state.opened:
            assert SQUARED.nearest(rows[row : row + 1], centers)[1][0] > method.price.threshold(
                len(centers)
            )
            centers = np.concatenate([centers, rows[row : row + 1]])
        assert SQUARED.nearest(rows, centers)[1].max() <= method.price.threshold(len(centers))
        centers = state.means
    assert all(after.objective < before.objective for before, after in pairwise(found))
    assert len(found[-1].centers) > 3


@pytest.mark.parametrize("kind", [other_price.ConcaveSearch, other_price.ConvexSearch])
@pytest.mark.parametrize("seed", range(4))
def test_moves_of_one_step_pay_the_price_of_all_of_them(kind, seed, monkeypatch):
    monkeypatch.setattr(search, "EXCHANGES_BELOW", 0)
    rows = np.random.default_rng(seed).normal(size=(400, 2))
    start = rows[np.random.default_rng(seed).permutation(400)[:60]]
    found = states_of(InMemoryRows(rows, None), kind(1.0, centers=start, seed=seed))
    several = 0
    for before, after in pairwise(found):
        moves = np.array(after.moves)[:3]
        if moves.any():
            assert before.objective - after.objective >= after.gains.sum() - 1e-9
            several += moves.sum() > 1
    assert several


def test_a_linear_price_changes_without_rounding():
    price = LinearPrice(0.1)
    assert price.change(3, 4) == price.threshold(10**6) == 0.1
    assert price.change(4, 3) == -0.1
    assert (price.of(3), price.divide(2.0).penalty) == (0.1 * 3, 0.05)
    assert LinearPrice(1e300).divide(1e-300).penalty == np.finfo(float).max


def test_another_price_follows_from_its_totals_alone():
    price = other_price.Concave(2.0)
    assert price.threshold(1) == pytest.approx(2.0 * (2**0.8 - 1))
    assert price.divide(4.0).of(32) == price.of(32) / 4
