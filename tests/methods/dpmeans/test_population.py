"""The efforts of a search: the best one goes on from the end of a normal one, with a population."""

from dataclasses import replace
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, seeds, spread, table, tables, weights_of

from dask_dpmeans import DPMeans, InputError, lower_bound
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.dpmeans import population, search, short_searches, starts


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(population, "MEMBERS", 3)
    monkeypatch.setattr(population, "FAILURES", 6)


def states(rows, weights=None, **parameters):
    source = InMemoryRows(np.ascontiguousarray(rows), weights)
    method = search.Method(max_iter=10_000, **parameters)
    return [step.state for step in iterate(source, method)]


@settings(max_examples=20)
@given(data=st.data(), seed=seeds)
def test_the_best_effort_is_never_above_the_normal_one_and_never_rises(data, seed):
    rows = data.draw(tables(rows=(1, 40), columns=(1, 3), kinds=TAME))
    weights = data.draw(weights_of(len(rows), (0.0, 0.3, 1.0, 7.7)))
    given = {"penalty": data.draw(st.floats(0.01, 3.0)) * spread(rows), "seed": seed}
    if data.draw(st.booleans()):
        given["outlier_penalty"] = given["penalty"] / 3
    check_best(rows, weights, given)


def check_best(rows, weights, given):
    """Check that the best effort ends no higher than the normal one, and never rises on the way."""
    normal, best = states(rows, weights, **given), states(rows, weights, effort="best", **given)
    objectives = [state.objective for state in best]
    assert objectives[-1] <= normal[-1].objective
    assert all(after <= before for before, after in pairwise(objectives))
    return normal, best


@pytest.mark.parametrize(
    ("kind", "seed", "shape", "dtype", "share"),
    [
        ("clouds", 8, (16, 2), np.float32, 2.752720137324799),
        ("offset", 36, (33, 2), np.float64, 0.4556535898784306),
    ],
)
def test_the_best_effort_may_take_another_path_from_its_short_searches_on(
    kind, seed, shape, dtype, share
):
    rows = table(kind, shape, dtype, seed)
    normal, best = check_best(rows, None, {"penalty": share * spread(rows), "seed": 173})
    assert best[1].objective < normal[1].objective


@pytest.mark.parametrize("narrow", [False, True])
def test_the_best_effort_goes_on_from_the_normal_one_if_its_own_short_searches_end_higher(
    monkeypatch, narrow
):
    if narrow:  # rows in cells
        monkeypatch.setattr(short_searches, "SHORT_BELOW", 100)
    for module in (search, starts):
        taken = module.search_shortly

        def shortly(method, source, *others, taken=taken):
            found = taken(method, source, *others)
            return found[:1] if method.effort == "best" else found

        monkeypatch.setattr(module, "search_shortly", shortly)
    monkeypatch.setattr(search.Method, "_evolve", lambda *_: (None, 0))
    rows = np.random.default_rng(0).uniform(size=(300, 2))
    given = {"penalty": 0.1, "seed": 0}
    normal, best = check_best(rows, None, given)
    assert len(best[1].centers) < len(normal[1].centers)


@pytest.mark.parametrize(("numbers", "penalty"), [(2399, 0.5), (2400, 0.1)])
def test_more_rows_have_crossovers_on_all_rows_or_a_population_on_a_coreset(
    monkeypatch, numbers, penalty
):
    """The second, which settles on all rows, is for rows of too many numbers."""
    monkeypatch.setattr(population, "CORESET_ABOVE", 400)
    monkeypatch.setattr(starts, "CROSSED_NUMBERS", numbers)
    populations, jobs = [], population.Population.lowest
    monkeypatch.setattr(
        population.Population, "lowest", lambda *how: populations.append(how) or jobs(*how)
    )
    crossed, cross = [], population.cross_all_rows
    monkeypatch.setattr(
        population, "cross_all_rows", lambda *how: crossed.append(how) or cross(*how)
    )
    seen, coreset = [], population.coreset_and_price
    monkeypatch.setattr(
        population, "coreset_and_price", lambda *how: seen.append(how) or coreset(*how)
    )
    rows = np.random.default_rng(0).uniform(size=(1200, 2))
    normal, best = (
        states(rows, penalty=penalty, coreset_rows=500, effort=effort)
        for effort in ("normal", "best")
    )
    assert seen
    assert (population.MANY in [each for how in crossed for each in how]) == (numbers == rows.size)
    assert bool(populations) == (numbers < rows.size)
    assert best[-1].objective < normal[-1].objective
    assert best[-1].rows_read > normal[-1].rows_read


def test_a_state_of_the_best_effort_goes_on_to_the_same_bytes():
    rows = np.random.default_rng(4).uniform(size=(90, 2))
    given = {"penalty": 0.2, "effort": "best"}
    whole = states(rows, **given)
    source, method = InMemoryRows(rows, None), search.Method(max_iter=10_000, **given)
    for state in whole[-4:-1]:
        *_, end = iterate(source, method, replace(state))
        assert end.state.centers.tobytes() == whole[-1].centers.tobytes()
        assert end.state.rows_read == whole[-1].rows_read


def test_chunks_do_not_change_the_bytes_of_any_effort():
    rows = np.random.default_rng(2).uniform(size=(120, 2))
    for effort in search.EFFORTS:
        model = DPMeans(0.3, search=True, effort=effort, random_state=5)
        whole = model.fit(rows).cluster_centers_
        for chunk in (7, 40):
            again = model.fit(da.from_array(rows, chunks=(chunk, 2))).cluster_centers_
            assert again.tobytes() == whole.tobytes()


def test_the_best_effort_keeps_the_result_of_a_normal_one_if_a_population_has_too_many_clusters():
    rows = np.random.default_rng(3).uniform(size=(80, 2))
    most = max(len(state.centers) for state in states(rows, penalty=0.3))
    end = states(rows, penalty=0.3, effort="best", max_clusters=most)[-1]
    assert len(end.centers) <= most


def test_the_penalty_that_is_chosen_does_not_hang_on_the_effort():
    rows = np.random.default_rng(0).normal(size=(90, 2)) + 9 * np.eye(3, 2).repeat(30, 0)
    found = {DPMeans(effort=effort, random_state=0).fit(rows).penalty_ for effort in search.EFFORTS}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"search": True, "effort": "most"}, "effort must be one of 'quick', 'normal', 'best'"),
        ({"effort": "best"}, "effort must be 'normal' with search=False, got 'best'"),
        ({"effort": None}, "effort must be one of 'quick', 'normal', 'best', got None"),
    ],
)
def test_an_effort_that_would_be_ignored_or_is_unknown_is_an_error(how, match):
    with pytest.raises(InputError, match=match):
        DPMeans(1.0, **how).fit(np.eye(3))


def test_there_is_no_population_once_the_gap_is_proved_to_be_small_enough():
    rows = np.random.default_rng(0).normal(size=(150, 2)) + 9 * (np.arange(150) % 3)[:, None]
    given = {"search": True, "random_state": 0, "effort": "best"}
    normal = DPMeans(90.0, search=True, random_state=0).fit(rows)
    ended = DPMeans(90.0, gap_tol=0.01, **given).fit(rows)
    whole, never = DPMeans(90.0, **given).fit(rows), DPMeans(90.0, gap_tol=0.0, **given).fit(rows)
    np.testing.assert_array_equal(ended.cluster_centers_, normal.cluster_centers_)
    np.testing.assert_array_equal(never.cluster_centers_, whole.cluster_centers_)
    assert ended.n_passes_ < whole.n_passes_ < never.n_passes_
    assert lower_bound(ended, rows).gap <= 0.01


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({}, "gap_tol needs search=True and effort='best', got search=False"),
        ({"search": True}, "gap_tol needs effort='best', got effort='normal': other efforts end"),
        (
            {"search": True, "effort": "best", "discount": 1.0},
            "gap_tol needs squared distances, one",
        ),
        (
            {"search": True, "effort": "best", "missing": "observed"},
            "gap_tol needs squared distances",
        ),
        ({"search": True, "effort": "best", "outlier_penalty": 1.0}, "gap_tol needs squared dist"),
        (
            {"search": True, "effort": "best", "gap_tol": -1},
            "gap_tol must be a finite number >= 0, got -1",
        ),
    ],
)
def test_a_gap_that_would_be_ignored_is_an_error(how, match):
    rows = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match=match):
        DPMeans(5.0, **{"gap_tol": 0.1, **how}).fit(rows)


def test_a_gap_of_more_rows_than_a_population_sees_is_an_error(monkeypatch):
    monkeypatch.setattr(population, "CORESET_ABOVE", 20)
    rows = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match="gap_tol is for up to 20 rows, got 30"):
        DPMeans(5.0, search=True, effort="best", gap_tol=0.1).fit(rows)
