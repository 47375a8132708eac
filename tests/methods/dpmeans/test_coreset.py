import math
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import chunkings, contents, seeds

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api.synthetic import Synthetic
from dask_dpmeans.engine import checkpoints
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels.assign import scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import (
    coreset,
    crossover,
    population,
    search,
    search_passes,
    search_state,
    short_searches,
    starts,
    trials,
)
from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.methods.dpmeans.coreset import SEEDS, Drawn, Sensitivity, Uniform, d2_seeds
from dask_dpmeans.methods.dpmeans.crossover import Crossovers
from dask_dpmeans.methods.dpmeans.search import Method
from dask_dpmeans.sources import RowSource, as_source


def blobs(n, k=12, seed=0):
    data = Synthetic("blobs", n, 2, k, seed)
    return np.concatenate([rows for _, rows, _ in data.parts()]), data.centers


def coreset_of(source, seed, most):
    sensitivity, passes = Sensitivity.of(source, seed)
    return sensitivity.coreset(source, most), passes + 1


def drawn_bytes(source, seed, most):
    core, passes = coreset_of(source, seed, most)
    assert passes == 3
    return core.rows.dtype.str, core.rows.tobytes(), core.weights.tobytes()


@pytest.mark.parametrize("weighted", [False, True])
def test_over_seeds_a_coreset_is_right_about_weight_mean_and_squared_error(weighted):
    """Each draw is unbiased, so that the mean of many comes within a few standard errors."""
    rows, centers = blobs(4000)
    rng = np.random.default_rng(0)
    weights = rng.choice([0.0, 0.2, 1.0, 5.0], len(rows)) if weighted else None
    each = np.ones(len(rows)) if weights is None else weights
    elsewhere = rng.uniform(0, 30, (5, 2))
    source = InMemoryRows(rows, weights)
    cores = [coreset_of(source, seed, 400)[0] for seed in range(60)]
    for figure, truth in (
        (lambda core: core.weights.sum(), each.sum()),
        (
            lambda core: core.weights @ core.rows[:, 0].astype(float),
            each @ rows[:, 0].astype(float),
        ),
        (lambda core: inertia_of(core, centers), inertia_of(source, centers)),
        (lambda core: inertia_of(core, elsewhere), inertia_of(source, elsewhere)),
    ):
        found = np.array([figure(core) for core in cores])
        assert abs(found.mean() - truth) < 5 * found.std() / math.sqrt(len(found))
        assert found.std() < 0.15 * truth
    assert all(200 < len(core.rows) < 600 for core in cores)


@settings(max_examples=20)
@given(st.integers(1, 300), st.integers(40, 200), seeds)
def test_rows_without_weight_are_never_drawn_and_others_keep_theirs_where_all_are(n, most, seed):
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(n, 2)), rng.choice([0.0, 0.5, 2.0], n)
    weights[rng.integers(n)] = 1.0
    core, _ = coreset_of(InMemoryRows(rows, weights), seed % 1000, most)
    known = {tuple(row): weight for row, weight in zip(rows.tolist(), weights, strict=True)}
    drawn = [known[tuple(row)] for row in core.rows.tolist()]
    assert all(weight > 0 for weight in drawn)
    assert all(after >= before for before, after in zip(drawn, core.weights, strict=True))
    everything, _ = coreset_of(InMemoryRows(rows, weights), seed % 1000, 10**9)
    assert everything.rows.tolist() == rows[weights > 0].tolist()
    assert everything.weights.tolist() == weights[weights > 0].tolist()


def test_where_nothing_is_drawn_the_mean_stands_for_all_rows():
    rows, weights = blobs(100)[0], np.full(100, 0.5)
    source = InMemoryRows(rows, weights)
    core, _ = coreset_of(source, 0, 0)
    assert core.rows.tolist() == source.summary.mean[np.newaxis].tolist()
    assert core.weights.tolist() == [50.0]


@pytest.mark.parametrize("rows", [np.full((40, 2), 3.0), np.zeros((1, 1))])
def test_rows_of_one_place_make_a_coreset(rows):
    source = InMemoryRows(rows, None)
    core, _ = coreset_of(source, 0, 10**6)
    assert core.rows.tolist() == rows.tolist()
    assert np.mean(
        [coreset_of(source, seed, 20)[0].weights.sum() for seed in range(200)]
    ) == pytest.approx(len(rows), rel=0.15)


@settings(max_examples=8)
@given(st.data(), st.integers(1, 2), st.sampled_from([np.float32, np.float64]))
def test_the_chunking_does_not_show_in_a_coreset(data, threads, dtype):
    rows = blobs(600)[0].astype(dtype)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 2.0], 600)
    expected = drawn_bytes(as_source(rows, weights, threads=1, block_rows=64), 3, 100)
    assert drawn_bytes(as_source(rows, weights, threads=threads, block_rows=64), 3, 100) == expected
    lazy = da.from_array(rows, chunks=(data.draw(chunkings(600)), data.draw(chunkings(2, False))))
    assert drawn_bytes(as_source(lazy, weights, block_rows=64), 3, 100) == expected


def test_seeds_of_the_draw_differ_and_a_coreset_keeps_the_units_of_the_source():
    rows = blobs(600)[0]
    source = InMemoryRows(rows, None, np.array([2.0, 3.0]))
    assert drawn_bytes(source, 0, 100) == drawn_bytes(source, 0, 100) != drawn_bytes(source, 1, 100)
    assert coreset_of(source, 0, 100)[0].scale.tolist() == [2.0, 3.0]


@settings(max_examples=15)
@given(st.integers(1, 6), st.integers(10, 100), st.booleans(), seeds)
def test_the_expected_draws_are_the_sensitivities_in_quarters(k, most, weighted, seed):
    """Of n rows: a quarter by their own errors, one by those of their cells, a half by the weights of these."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 2))
    weights = rng.choice([0.0, 0.5, 2.0], 200) if weighted else None
    each = np.ones(200) if weights is None else weights
    seeds_of = rows[rng.integers(200, size=k)]
    block = Block(0, rows, weights)
    cells = scan(block, Centers(seeds_of), math.inf)
    draw = Sensitivity(Centers(seeds_of), cells.moments, 0).draw(most)
    squared = ((rows[:, np.newaxis] - seeds_of) ** 2).sum(axis=2)
    labels, least = squared.argmin(axis=1), squared.min(axis=1)
    total = each @ least
    cell_weights, cell_errors = np.bincount(labels, each, k), np.bincount(labels, each * least, k)
    alive = np.count_nonzero(cell_weights)
    for label, error in zip(labels, least, strict=True):
        if cell_weights[label] > 0:
            shares = (
                error / total,
                cell_errors[label] / total / cell_weights[label],
                2 / cell_weights[label] / alive,
            )
            found = draw.of_distances * error + draw.of_cells[label]
            assert found == pytest.approx(most / 4 * sum(shares), rel=1e-9)
    assert each @ (draw.of_distances * least + draw.of_cells[labels]) == pytest.approx(
        most, rel=1e-9
    )


def test_a_uniform_draw_takes_rows_of_weight_and_makes_up_for_the_others():
    rows, weights = np.arange(4000.0)[:, np.newaxis], np.tile([0.0, 3.0], 2000)
    drawn = Uniform(0.25, 7).chunk(Block(0, rows, weights))
    assert (drawn.rows[:, 0] % 2 == 1).all()
    assert set(drawn.weights) == {12.0}
    assert 400 < len(drawn.rows) < 600
    elsewhere = Uniform(0.25, 7).chunk(Block(4096, rows, weights))
    assert drawn.rows.tolist() != elsewhere.rows.tolist()


def test_seeds_are_rows_apart_and_no_more_than_there_are_places():
    places = np.array([[0.0], [5.0], [9.0]])
    sample = Drawn(np.repeat(places, 4, axis=0), np.ones(12))
    for seed in range(5):
        found = d2_seeds(sample, SEEDS, np.random.default_rng(seed))
        assert sorted(found.tolist()) == places.tolist()
    assert len(d2_seeds(sample, 2, np.random.default_rng(0))) == 2
    weightless = Drawn(sample.rows, np.repeat([1.0, 0.0, 1.0], 4))
    assert sorted(d2_seeds(weightless, 9, np.random.default_rng(0)).tolist()) == [[0.0], [9.0]]


# The search that starts on a coreset


@pytest.fixture(scope="module", autouse=True)
def small():
    """A sample of 1000 rows, no trials on more than that, and none of the moves of single rows that few rows see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "EXCHANGES_BELOW", 0)
        patch.setattr(coreset, "SAMPLE_ROWS", 1000)
        patch.setattr(trials, "TRIALS_BELOW", 1000)
        patch.setattr(trials, "TRIALS_AFTER_BELOW", 1000)
        patch.setattr(starts, "CROSSED_NUMBERS", 0)
        yield


@pytest.fixture
def crossed(monkeypatch):
    """The calls of crossovers on all rows, which rows of small tests see too."""
    monkeypatch.setattr(starts, "CROSSED_NUMBERS", 2**20)
    monkeypatch.setattr(trials, "TRIALS_BELOW", 10_000)
    seen, cross = [], search.cross_all_rows
    monkeypatch.setattr(search, "cross_all_rows", lambda *how: seen.append(how) or cross(*how))
    return seen


@pytest.fixture
def swapped(monkeypatch):
    """The numbers of rows by which centers were swapped."""
    seen, swap = [], crossover.swap_center

    def swap_center(rows, *how):
        seen.append(len(rows.rows))
        return swap(rows, *how)

    monkeypatch.setattr(crossover, "swap_center", swap_center)
    return seen


@pytest.fixture(scope="module")
def large():
    rows, centers = blobs(5000)
    return (
        rows,
        centers,
        [step.state for step in iterate(InMemoryRows(rows, None), Method(300.0, coreset_rows=500))],
    )


def test_what_a_search_from_a_coreset_says_is_of_all_rows(large):
    rows, _, states = large
    for state in states:
        squared = ((rows[:, np.newaxis].astype(np.float64) - state.centers) ** 2).sum(axis=2)
        labels = squared.argmin(axis=1)
        np.testing.assert_array_equal(state.weights, np.bincount(labels))
        np.testing.assert_allclose(
            state.inertias, np.bincount(labels, squared.min(axis=1)), rtol=1e-12
        )
        assert state.objective == math.fsum(state.inertias) + 300.0 * len(state.centers)
    assert squared.min(axis=1).max() <= 300.0
    assert not any(np.array(state.moves)[3:].any() for state in states)


@pytest.mark.parametrize(("limit", "shares"), [(4999, 0), (5000, trials.LAST_SHARES)])
def test_all_rows_see_the_last_trials_after_a_coreset_where_they_are_few(
    large, monkeypatch, limit, shares
):
    rows, _, states = large
    monkeypatch.setattr(trials, "TRIALS_AFTER_BELOW", limit)
    found = [
        step.state for step in iterate(InMemoryRows(rows, None), Method(300.0, coreset_rows=500))
    ]
    assert len(trials.SHARES) - found[0].share == shares
    assert found[0].tries == search_state.FEWEST_TRIES
    assert found[-1].objective <= states[-1].objective
    assert (found[-1].rows_read > states[-1].rows_read) == bool(shares)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_quick_trials_after_a_coreset_open_clusters_that_promise_enough(monkeypatch, seed):
    rows, tried = np.random.default_rng(seed).uniform(1, 30, (5000, 2)), []
    trial = Method._trial

    def told(self, source, found, state):
        if source.plan.n_rows == len(rows):
            tried.append(trials.kind_of(state))
        return trial(self, source, found, state)

    def end(promising):
        tried.clear()
        monkeypatch.setattr(trials, "PROMISING", promising)
        method = Method(300.0, coreset_rows=500, effort="quick")
        return [step.state for step in iterate(InMemoryRows(rows, None), method)][-1].objective

    monkeypatch.setattr(Method, "_trial", told)
    monkeypatch.setattr(trials, "TRIALS_BELOW", 2**17)
    monkeypatch.setattr(trials, "TRIALS_AFTER_BELOW", 2**19)
    without = end(10.0)
    assert not tried
    assert end(0.5) < without
    assert len(tried) >= trials.LAST_SHARES
    assert set(tried) == {"open"}
    monkeypatch.setattr(search, "FUSED_CLUSTERS", 2)  # trials that fail end a share then, too
    end(0.5)
    assert set(tried) == {"open"}


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=60),
    st.none() | st.lists(st.floats(0, 100), max_size=9),
    st.integers(0, 3),
    st.floats(1, 200),
)
def test_openings_promise_if_the_best_save_half_of_their_price(splits, candidates, share, penalty):
    among = None if candidates is None else SimpleNamespace(savings=np.array(candidates))
    found = SimpleNamespace(
        savings=np.array(splits),
        among_outliers=among,
        alive=len(splits),
        price=LinearPrice(penalty),
    )
    state = SimpleNamespace(share=share, centers=np.zeros((len(splits), 1)))
    count = max(1, int(trials.SHARES[share] * len(splits)))
    saved = math.fsum(sorted([*splits, *(candidates or ())], reverse=True)[:count])
    assume(abs(saved - penalty * count / 2) > 1e-9 * saved)
    assert trials.openings_promise(found, state) == (saved > penalty * count / 2)


@pytest.mark.parametrize(
    ("how", "times"),
    [
        ({"coreset_rows": 500}, 1),
        ({"coreset_rows": 500, "effort": "quick"}, 0),
        ({"coreset_rows": 0}, 0),
        ({}, 0),  # so few rows are searched without a coreset
        ({"coreset_rows": 500, "centers": np.eye(2)}, 0),
        ({"coreset_rows": 500, "metric": "cosine", "penalty": 0.01}, 1),
        ({"coreset_rows": 500, "outlier_penalty": 100.0}, 1),
    ],
)
def test_crossovers_on_all_rows_come_after_a_coreset_alone(crossed, how, times):
    rows = np.random.default_rng(0).uniform(1, 30, (1200, 2))
    list(iterate(InMemoryRows(rows, None), Method(**{"penalty": 200.0} | how)))
    assert len(crossed) == times


@pytest.mark.parametrize(
    ("rows", "numbers", "times"), [(999, 1998, 1), (998, 1998, 0), (999, 1997, 0)]
)
def test_crossovers_on_all_rows_are_for_few_rows_of_few_numbers(
    crossed, monkeypatch, rows, numbers, times
):
    monkeypatch.setattr(trials, "TRIALS_BELOW", rows)
    monkeypatch.setattr(starts, "CROSSED_NUMBERS", numbers)
    drawn = np.random.default_rng(0).uniform(0, 30, (999, 2))
    method = Method(200.0, coreset_rows=300)
    states = [step.state for step in iterate(InMemoryRows(drawn, None), method)]
    assert len(crossed) == times
    assert states[0].to_cross == bool(times)
    assert not states[-1].to_cross


def test_crossovers_on_all_rows_lower_the_objective_and_means_are_finer_after_them(
    crossed, swapped
):
    source = InMemoryRows(np.random.default_rng(3).uniform(0, 30, (900, 4)), None)
    for tol in (0.2, 0.001):
        method = Method(400.0, coreset_rows=300, tol=tol)
        states = [step.state for step in iterate(source, method)]
        last = states[-1]
        labels = ((source.rows[:, np.newaxis] - last.centers) ** 2).sum(axis=2).argmin(axis=1)
        means = [source.rows[labels == c].mean(axis=0) for c in range(len(last.centers))]
        after = inertia_of(source, np.array(means)) + 400.0 * len(means)
        assert last.objective - after <= tol / search_passes.FINEST * last.objective
    assert swapped
    assert all(150 < rows <= 450 for rows in swapped)  # of the coreset
    after = [state.to_cross for state in states].index(False)
    assert after > 0
    assert states[after].moves.swaps == 1


def test_what_all_searches_of_a_coreset_find_is_not_crossed(crossed, monkeypatch):
    monkeypatch.setattr(population.Crossovers, "lowest", None)
    rows = np.random.default_rng(0).normal(size=(1200, 2)) + 90 * np.eye(3, 2).repeat(400, axis=0)
    end = [
        step.state for step in iterate(InMemoryRows(rows, None), Method(1000.0, coreset_rows=300))
    ][-1]
    assert len(crossed) == 1
    assert len(end.centers) == 3


def test_crossovers_on_all_rows_keep_to_the_most_clusters(crossed, monkeypatch):
    source = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (1200, 2)), None)
    state = next(iter(iterate(source, Method(200.0, coreset_rows=300)))).state

    def crossed_up_to(most):
        method = Method(200.0, coreset_rows=300, max_clusters=most)
        return search.cross_all_rows(method, source, state, np.random.default_rng(0))

    whole, rows_read = crossed_up_to(None)
    kept, _ = crossed_up_to(len(whole))
    np.testing.assert_array_equal(kept, whole)
    assert crossed_up_to(len(whole) - 1) == (None, rows_read)


def test_crossovers_on_all_rows_that_find_too_many_clusters_are_counted(crossed, monkeypatch):
    source = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (1200, 2)), None)
    without = [step.state for step in iterate(source, Method(200.0, coreset_rows=300))]
    monkeypatch.setattr(search, "cross_all_rows", lambda *_: (None, 7_000_000))
    states = [step.state for step in iterate(source, Method(200.0, coreset_rows=300))]
    assert states[-1].rows_read > 7_000_000 > without[-1].rows_read


@pytest.mark.parametrize(
    ("how", "size", "found"),
    [
        ({}, (1000, 3), True),
        ({"metric": "cosine"}, (1000, 3), True),
        ({"effort": "quick"}, (1000, 3), False),
        ({}, (2**17, 128), True),
        ({}, (2**17 + 1, 2), False),
        ({}, (2**17, 129), False),
    ],
)
def test_which_rows_may_be_crossed(how, size, found):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "TRIALS_BELOW", 2**17)
        patch.setattr(starts, "CROSSED_NUMBERS", 2**24)
        method = Method(1.0, **how)
        assert starts.may_cross_all_rows(method, *size) == found
        counts = SimpleNamespace(divergence=SimpleNamespace(general=object()), effort="normal")
        assert not starts.may_cross_all_rows(counts, *size)


def test_a_coreset_of_crossovers_has_at_most_half_of_the_rows():
    source = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (4000, 2)), None)
    core, _, passes = starts.coreset_and_price(Method(1.0), source, 100, 50.0)
    assert 1700 < len(core.rows) < 2300
    assert passes == 3
    core, alone, _ = starts.coreset_and_price(Method(1.0, coreset_rows=300), source, 100, 50.0)
    assert 200 < len(core.rows) < 400
    assert alone.coreset_rows == 0
    assert alone.penalty == pytest.approx(1 + 2 * 50 / (len(core.rows) + 2 * 100))


def test_it_ends_near_the_search_of_all_rows_in_far_fewer_passes(large, monkeypatch):
    rows, centers, states = large
    monkeypatch.setattr(trials, "TRIALS_BELOW", 10_000)
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 0)  # of all rows, trials
    monkeypatch.setattr(search, "NARROW", 0)
    whole = [step.state for step in iterate(InMemoryRows(rows, None), Method(300.0))][-1]
    assert states[-1].objective <= 1.01 * whole.objective
    assert states[-1].rows_read < whole.rows_read / 3
    assert states[-1].objective <= inertia_of(InMemoryRows(rows, None), centers) + 300.0 * len(
        centers
    )


class Counted(InMemoryRows):
    """Held rows that count how often they are folded."""

    folds = 0

    def fold(self, reduction, blocks=None, name="fold"):
        Counted.folds += blocks is None
        return super().fold(reduction, blocks, name)


def test_every_pass_of_crossovers_on_all_rows_is_counted(crossed, monkeypatch):
    monkeypatch.setattr(population, "CORESET_ABOVE", 1000)
    rows = np.random.default_rng(0).uniform(0, 30, (1200, 2))
    for effort in ("normal", "best"):
        Counted.folds = 0
        for step in iterate(Counted(rows, None), Method(200.0, coreset_rows=300, effort=effort)):
            assert step.state.rows_read == Counted.folds * len(rows)
    assert crossed


def test_every_pass_over_all_rows_is_counted_and_those_over_the_coreset_are_not(large):
    rows, _, states = large
    Counted.folds = 0
    method = Method(300.0, coreset_rows=500)
    for step in iterate(Counted(rows, None), method):
        assert step.state.rows_read == Counted.folds * len(rows)
        if step.state.step == 1 and not step.converged:
            assert Counted.folds == 1 + 3 + 1  # survey, coreset, probe
    assert step.state.rows_read == states[-1].rows_read


def test_sensitivities_are_found_once_for_a_source_and_a_seed(large, monkeypatch):
    rows, passes, fold = large[0], [], RowSource.fold

    def noted(source, *arguments, name):
        passes.append(name)
        return fold(source, *arguments, name=name)

    monkeypatch.setattr(RowSource, "fold", noted)
    source = as_source(rows, threads=1)
    found = [Sensitivity.of(source, seed, most)[0] for seed, most in ((0, 9.0), (0, 9.0))]
    again = Sensitivity.of(as_source(rows, threads=1), 0, 9.0)[0]
    assert passes == ["sample", "cells"] * 2
    drawn = [each.coreset(source, 300).rows.tobytes() for each in (*found, again)]
    assert drawn == drawn[:1] * 3
    for seed, most in ((1, 9.0), (0, 8.0)):
        Sensitivity.of(source, seed, most)
    assert passes.count("cells") == 4


def first(rows, **parameters):
    return contents(
        next(iter(iterate(InMemoryRows(rows, None), Method(300.0, **parameters)))).state
    )


def test_a_coreset_is_taken_where_it_is_asked_for_and_no_centers_are_given():
    rows, centers = blobs(1000)
    assert first(rows) == first(rows, coreset_rows=0)
    assert first(rows, coreset_rows=300)["rows_read"] == 5 * len(rows)
    assert first(rows, coreset_rows=300, centers=centers) == first(rows, centers=centers)


def test_by_the_rule_a_coreset_has_rows_for_the_clusters_that_a_first_one_shows(monkeypatch):
    rows, _ = blobs(4000)
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 0)
    monkeypatch.setattr(search, "NARROW", 0)
    monkeypatch.setattr(starts, "CORESET_ABOVE", 3999)
    monkeypatch.setattr(starts, "LEAST_CORESET", 400)
    sizes = []
    coreset_of_size = Sensitivity.coreset
    monkeypatch.setattr(
        Sensitivity, "coreset", lambda *given: sizes.append(given[2]) or coreset_of_size(*given)
    )
    monkeypatch.setattr(starts, "ROWS_A_CLUSTER", 100)
    assert first(rows)["rows_read"] == (1 + 2 + 2 + 1) * len(
        rows
    )  # survey, sensitivity, two coresets, probe
    assert sizes[0] == 400
    assert 900 <= sizes[1] <= 2000  # twelve clusters, and what moves alone leave apart
    monkeypatch.setattr(starts, "ROWS_A_CLUSTER", 1)
    assert first(rows)["rows_read"] == (1 + 2 + 1 + 1) * len(rows)
    monkeypatch.setattr(starts, "ROWS_A_CLUSTER", 1000)
    assert first(rows)["rows_read"] == (1 + 2 + 1 + 1) * len(
        rows
    )  # no second one, of half the rows or more
    assert 900 <= len(first(rows)["centers"]) / 16 * 100 <= 2000
    monkeypatch.setattr(starts, "CORESET_ABOVE", 4000)
    assert first(rows)["rows_read"] == 2 * len(rows)


@pytest.mark.parametrize("numbers", [0, 2**20])
def test_chunks_and_threads_do_not_show_in_a_search_from_a_coreset(monkeypatch, numbers):
    monkeypatch.setattr(trials, "TRIALS_BELOW", 10_000)
    monkeypatch.setattr(starts, "CROSSED_NUMBERS", numbers)
    rows = blobs(1500)[0]
    weights = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 2.0], len(rows))
    method = Method(100.0, coreset_rows=300, seed=4)
    expected, *others = (
        [contents(step.state) | {"end": step.converged} for step in iterate(source, method)]
        for source in (
            as_source(rows, weights, threads=1, block_rows=128),
            as_source(rows, weights, threads=2, block_rows=128),
            as_source(da.from_array(rows, chunks=(333, 1)), weights, block_rows=128),
        )
    )
    assert all(other == expected for other in others)


def test_it_goes_on_from_any_step_to_the_same_end(large):
    rows, _, states = large
    for state in states[:-1]:
        *_, last = iterate(InMemoryRows(rows, None), Method(300.0, coreset_rows=500), state)
        assert contents(last.state) == contents(states[-1])


@pytest.mark.parametrize("effort", ["normal", "best"])
def test_with_crossovers_it_goes_on_from_any_step_to_the_same_end_too(crossed, monkeypatch, effort):
    monkeypatch.setattr(population, "CORESET_ABOVE", 1000)
    source = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (1200, 2)), None)
    method = Method(200.0, coreset_rows=300, effort=effort)
    states = [step.state for step in iterate(source, method)]
    for state in states[-5:-1] if effort == "best" else states[:-1]:
        *_, last = iterate(source, method, state)
        assert contents(last.state) == contents(states[-1])
    assert states[0].to_cross
    assert not states[-1].to_cross


def test_a_run_that_was_stopped_in_crossovers_goes_on_with_the_next_one(
    crossed, monkeypatch, tmp_path
):
    monkeypatch.setattr(starts, "CORESET_ABOVE", 1000)
    monkeypatch.setattr(starts, "LEAST_CORESET", 300)
    monkeypatch.setattr(starts, "ROWS_A_CLUSTER", 8)
    monkeypatch.setattr(checkpoints, "SAVE_EVERY", 0.0)
    rows, children, child = np.random.default_rng(0).uniform(0, 30, (1200, 4)), [], Crossovers.child

    def searched(name, **how):
        children.clear()
        return fit(rows, tmp_path / name, DPMeans(400.0, search=True, random_state=0), **how)

    def stopping(*how):
        if len(children) == 3:
            raise KeyboardInterrupt
        children.append(None)
        return child(*how)

    monkeypatch.setattr(Crossovers, "child", lambda *how: children.append(None) or child(*how))
    whole, n_children = searched("whole.zarr"), len(children)
    assert n_children > 4
    monkeypatch.setattr(Crossovers, "child", stopping)
    with pytest.raises(KeyboardInterrupt):
        searched("run.zarr")
    assert any((tmp_path / "run.zarr" / "steps" / "searches").iterdir())
    monkeypatch.setattr(Crossovers, "child", lambda *how: children.append(None) or child(*how))
    again = searched("run.zarr", resume=True)
    assert len(children) == n_children - 3
    assert again.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert again.n_passes_ == whole.n_passes_
    for name in ("whole.zarr", "run.zarr"):
        assert not any((tmp_path / name / "steps").glob("searches/*"))


def test_a_lone_row_beyond_the_radius_is_a_cluster_of_its_own_at_the_end():
    rows = np.concatenate([blobs(3000)[0], [[60.0, 60.0]]])
    source = InMemoryRows(np.ascontiguousarray(rows), None)
    last = [step.state for step in iterate(source, Method(900.0, coreset_rows=500))][-1]
    assert [60.0, 60.0] in last.centers.tolist()


@pytest.fixture
def ends(monkeypatch):
    """A function of a seed: the first state of a search, and the ends of the searches of its coreset."""
    rows = np.random.default_rng(0).uniform(0, 30, (200, 2))
    core = InMemoryRows(rows[::2].copy(), None)
    monkeypatch.setattr(Sensitivity, "coreset", lambda *_: core)
    penalties = []
    crossovers = crossover.Crossovers.__call__

    def watched(job, rows):
        penalties.append(job.method.penalty)
        return crossovers(job, rows)

    monkeypatch.setattr(crossover.Crossovers, "__call__", watched)

    def searched(seed):
        method = Method(150.0, tol=0.01, coreset_rows=100, seed=seed)
        state = next(iter(iterate(InMemoryRows(rows, None), method))).state
        alone = Method(penalties[-1], tol=0.01, coreset_rows=0, max_iter=starts.NO_LIMIT)
        own = [
            starts.Restart(alone.seeded(each), search_state.TRIES_ON_CORESET)
            for each in starts.restart_seeds(seed)
        ]
        return core, penalties[-1], state, [restart(core) for restart in own]

    return searched


@pytest.mark.parametrize("seed", [6, 8])
def test_without_crossovers_the_lowest_of_the_searches_of_a_coreset_is_taken(
    monkeypatch, ends, seed
):
    monkeypatch.setattr(crossover.Crossovers, "_over", lambda *_: True)
    _, _, state, found = ends(seed)
    assert len({end.objective for end in found}) == len(found)
    assert state.centers.tolist() == min(found, key=lambda end: end.objective).centers.tolist()


def test_crossovers_never_end_higher_than_the_searches_and_lower_now_and_then():
    core = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (500, 2)), None)
    alone = Method(100.0, coreset_rows=0, max_iter=starts.NO_LIMIT)
    gains = []
    for seed in range(6):
        found = [starts.Restart(alone.seeded(each), 1)(core) for each in starts.restart_seeds(seed)]
        best = crossover.Crossovers(alone.seeded(seed), found)(core)
        assert best.objective == pytest.approx(
            inertia_of(core, best.centers) + 100.0 * len(best.centers), rel=1e-12
        )
        gains.append(min(end.objective for end in found) - best.objective)
    assert min(gains) >= 0
    assert sum(gain > 0.001 * best.objective for gain in gains) >= 2


def test_a_coreset_of_many_rows_sees_neither_trials_nor_crossovers(monkeypatch):
    core = InMemoryRows(np.random.default_rng(0).uniform(0, 30, (500, 2)), None)
    alone = Method(100.0, coreset_rows=0, max_iter=starts.NO_LIMIT)
    monkeypatch.setattr(trials, "TRIALS_BELOW", 499)
    found = [starts.Restart(alone.seeded(each), 2)(core) for each in (1, 2)]
    without = [starts.Restart(alone.seeded(each), 0)(core) for each in (1, 2)]
    assert [contents(end) | {"tries": 0} for end in found] == [contents(end) for end in without]
    monkeypatch.setattr(trials, "TRIALS_BELOW", 50)
    monkeypatch.setattr(starts, "Crossovers", None)  # a call would be an error
    list(iterate(core, Method(100.0, coreset_rows=300)))


def test_a_cluster_costs_more_on_a_coreset_for_its_mean_fits_few_rows(ends):
    core, penalty, _, _ = ends(0)
    start = starts.Restart(Method(150.0, tol=0.01, coreset_rows=0, max_iter=starts.NO_LIMIT), 0)(
        core
    )
    inertia = inertia_of(core, start.centers)
    assert penalty == pytest.approx(150.0 + 2 * inertia / len(core.rows), rel=1e-12)
    assert penalty > 160.0
