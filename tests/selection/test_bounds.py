"""Lower bounds are never above the optimum, near it where they should be, and refused where none is known."""

import json
import os
import pickle
import re
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from dask.distributed import Client, LocalCluster
from exact_optimum import exact_optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, seeds

from dask_dpmeans import (
    CorruptStoreError,
    DPMeans,
    HDPMeans,
    InputError,
    OnlineDPMeans,
    fit,
    load,
    lower_bound,
)
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.cli import main
from dask_dpmeans.estimators.bounded import share_above
from dask_dpmeans.methods.lower_bound import bounds, micro_prices, row_prices
from dask_dpmeans.methods.lower_bound.row_prices import Proof
from dask_dpmeans.report import report
from dask_dpmeans.selection import bounds as selection_bounds
from dask_dpmeans.sources import RowSource
from dask_dpmeans.storage.lock import only_job
from dask_dpmeans.storage.output import remove
from dask_dpmeans.storage.run_store import RunStore

PENALTY = 60.0


def blobs(n=240, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, columns)) + 9.0 * rng.integers(0, 4, (n, 1))


def searched(X, penalty=PENALTY, **options):
    return DPMeans(penalty, search=True, random_state=0, tol=0.0).fit(X, **options)


@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=30)
def test_no_bound_is_above_the_optimum_and_the_objective_is_that_of_the_fit(seed, weighted, search):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (int(rng.integers(1, 8)), int(rng.integers(1, 4)))).astype(float)
    weights = rng.choice([0.5, 1.0, 3.0], len(X)) if weighted else None
    model = DPMeans(rng.uniform(0.5, 20), search=search, random_state=0)
    model.fit(X, sample_weight=weights)
    found = lower_bound(model, X, weights)
    exact = exact_optimum(X, np.ones(len(X)) if weights is None else weights, model.penalty)
    assert Fraction(found.value) <= exact
    assert found.objective == pytest.approx(model.objective_, rel=1e-12)
    assert found.n_clusters == model.n_clusters_
    assert found.gap == pytest.approx(model.objective_ / found.value - 1, abs=1e-12)
    assert found.gap >= model.objective_ / float(exact) - 1 - 1e-12


@pytest.mark.parametrize("name", bounds.BOUNDS)
def test_each_bound_alone_is_below_the_objective(name, monkeypatch):
    X = blobs()[::4]
    monkeypatch.setattr(bounds, "BOUNDS", {name: bounds.BOUNDS[name]})
    found = lower_bound(searched(X), X)
    assert found.method == name
    assert found.value <= found.objective
    assert found.gap < {"one cluster": np.inf}.get(name, 1e-6)


def test_prices_are_near_in_few_columns_and_the_relaxation_in_many():
    X = blobs()
    assert lower_bound(searched(X), X).gap < 1e-4
    many = blobs(60, 8)
    found = lower_bound(searched(many, 200.0), many)
    assert found.method == "relaxation"
    assert found.gap < 1e-6


@pytest.mark.parametrize("most", [100, 2**15])
def test_more_clusters_than_cells_have_the_bound_of_one_cluster(most, monkeypatch):
    X = blobs()
    model = searched(X, 2.0)
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", most)
    for module in (row_prices, micro_prices):
        monkeypatch.setattr(module, "MOST_CELLS", 9)
    monkeypatch.setattr(bounds, "RELAXED_ROWS", 100)
    found = lower_bound(model, X)
    assert (found.value, found.method) == (2.0, "one cluster")
    assert found.objective == pytest.approx(model.objective_)


def test_rows_and_weights_at_the_ends_of_their_range_are_bounded_or_refused(monkeypatch):
    X = blobs(40)
    light = np.full(40, 1e-320)
    found = lower_bound(searched(X, 2e-319, sample_weight=light), X, light)
    assert (found.value, found.method) == (2e-319, "one cluster")
    far = searched(1e150 * X, 2e301)
    assert lower_bound(far, 1e150 * X).gap < 1e-4
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", 10)
    with pytest.raises(InputError, match="are beyond the range of float64: scale its columns or"):
        lower_bound(searched(1e-160 * X, 2e-319), 1e-160 * X)
    with pytest.raises(InputError, match="are beyond the range of float64: scale its columns or"):
        lower_bound(searched(X, 2e-319, sample_weight=light), X, light)


@pytest.fixture
def three_pieces(monkeypatch):
    """90 rows in 8 columns, whose relaxation is of three pieces."""
    monkeypatch.setattr(bounds, "WORK", 2.0**26)
    monkeypatch.setattr(bounds, "WORK_OF_ROW", 0.0)
    monkeypatch.setattr(bounds, "STEPS", 9 * 2**26 / 90**3)
    return blobs(90, 8)


def test_a_bound_of_pieces_is_one_too(three_pieces, monkeypatch):
    monkeypatch.setattr(bounds, "BOUNDS", {"relaxation": bounds.BOUNDS["relaxation"]})
    model = searched(three_pieces, 200.0)
    assert 0 <= lower_bound(model, three_pieces).gap < 0.2
    monkeypatch.setattr(bounds, "RELAXED_ROWS", 89)
    assert lower_bound(model, three_pieces).method == "none"


def test_pieces_on_workers_have_the_same_bound_and_say_how_many_are_done(three_pieces, tmp_path):
    model, passes = searched(three_pieces, 200.0), []
    expected = lower_bound(model, three_pieces, threads=1)
    assert expected.method == "relaxation"
    np.save(tmp_path / "rows.npy", three_pieces)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        rows = str(tmp_path / "rows.npy")
        assert lower_bound(model, rows, client=client, on_pass=passes.append) == expected
    pieces = [(each.done, each.total) for each in passes if each.name == "bound"]
    assert pieces[-1] == (3, 3)


@pytest.mark.parametrize("many", [10, 10**6])
def test_prices_are_a_pass_that_observers_see_from_its_beginning(monkeypatch, many):
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", many)
    X, passes = blobs(60, 2), []
    lower_bound(searched(X, 200.0), X, on_pass=passes.append)
    prices = [(each.done, each.total) for each in passes if each.name == "prices"]
    assert (prices[0], prices[-1]) == ((0, 1), (1, 1))


def test_more_rows_have_the_first_bound_that_is_near(monkeypatch):
    tried = []

    def noted(name, bound, *given):
        tried.append(name)
        return bound(*given)

    for name, bound in bounds.BOUNDS.copy().items():
        monkeypatch.setitem(bounds.BOUNDS, name, partial(noted, name, bound))
    monkeypatch.setattr(bounds, "FEW_ROWS", 50)
    for columns, expected in ((2, "prices of rows"), (8, "relaxation")):
        X = blobs(60, columns)
        found = lower_bound(searched(X, 200.0), X)
        assert 0 <= found.gap < 0.05
        assert tried == ["one cluster", expected]
        assert found.method == expected
        tried.clear()


def test_chunks_and_threads_do_not_show_in_any_bit():
    X = blobs(120)
    model = searched(X)
    expected = lower_bound(model, X)

    @settings(max_examples=4, deadline=None)
    @given(chunkings(120), st.integers(1, 3))
    def compare(sizes, threads):
        assert lower_bound(model, da.from_array(X, chunks=(sizes, -1)), threads=threads) == expected

    compare()


def test_many_rows_are_known_by_micro_clusters_and_chunks_and_threads_do_not_show(monkeypatch):
    X = blobs(400).astype(np.float32)
    model = searched(X)
    monkeypatch.setattr(row_prices, "GOALS", (1e-1, 1e-2))
    in_memory = lower_bound(model, X)
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", 100)
    monkeypatch.setattr(selection_bounds, "Gather", None)  # rows are not collected
    expected = lower_bound(model, X)
    assert expected.objective == pytest.approx(in_memory.objective, rel=1e-12)
    assert expected.value <= expected.objective
    assert expected.gap < in_memory.gap + 5e-3
    gaps = np.array(expected.cluster_gaps)
    assert gaps.sum() == pytest.approx(expected.objective - expected.value, rel=1e-4)

    @settings(max_examples=3, deadline=None)
    @given(chunkings(400), st.integers(1, 3))
    def compare(sizes, threads):
        assert lower_bound(model, da.from_array(X, chunks=(sizes, -1)), threads=threads) == expected

    compare()


@pytest.mark.parametrize(("rounds", "other"), [(0, False), (1, False), (3, False), (3, True)])
def test_the_bound_of_a_run_that_was_stopped_goes_on_where_it_was(
    rounds, other, tmp_path, monkeypatch
):
    """A version that goes by other numbers begins the search for prices anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", 100)
    monkeypatch.setattr(row_prices, "GOALS", (1e-1, 1e-2))
    following, taken = Proof.next, []

    def counted(proof):
        if len(taken) == rounds and stopping:
            raise KeyboardInterrupt
        taken.append(proof)
        return following(proof)

    np.save("rows.npy", blobs())
    fit("rows.npy", "run.zarr", DPMeans(PENALTY, random_state=0))
    stopping = False
    monkeypatch.setattr(Proof, "next", counted)
    expected = lower_bound(load("run.zarr"), "rows.npy")
    total = len(taken)
    taken.clear()
    stopping = True
    with pytest.raises(KeyboardInterrupt):
        lower_bound("run.zarr")
    stopping = False
    if other:
        monkeypatch.setattr(micro_prices, "SETTINGS", (*micro_prices.SETTINGS, 1))
    folds = []
    fold = RowSource.fold
    monkeypatch.setattr(
        RowSource, "fold", lambda *given, **named: folds.append(named) or fold(*given, **named)
    )
    assert RunStore.at("run.zarr").steps.has_checkpoints()
    assert lower_bound("run.zarr") == expected
    assert not [each for each in folds if each.get("name") == "bound"]
    assert len(taken) == total + other * rounds > rounds
    assert not RunStore.at("run.zarr").steps.has_checkpoints()
    assert lower_bound("run.zarr") == expected


def test_a_run_has_the_bound_of_its_rows_weights_columns_and_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = blobs(100, 3) * [1.0, 100.0, 5.0]
    weights = np.arange(100) % 3
    np.save("rows.npy", X)
    np.save("weights.npy", weights)
    model = DPMeans(3.0, search=True, random_state=0)
    told = {"sample_weight": "weights.npy", "columns": [0, 1], "scale": "std"}
    model = fit("rows.npy", "run.zarr", model, **told)
    found = lower_bound("run.zarr")
    assert found.objective == pytest.approx(model.objective_, rel=1e-12)
    assert found.gap < 1e-4
    assert found == lower_bound(model, X, weights)
    said = CliRunner().invoke(main, ["bound", "run.zarr"])
    assert said.exit_code == 0, said.output
    assert f"lower bound  {found.value:.9g}, by prices of rows" in said.output
    assert "% above the optimum" in said.output
    asked = CliRunner().invoke(main, ["bound", "run.zarr", "--json", "--threads", "1"])
    event = json.loads(asked.stdout)
    assert event == {
        "event": "bound",
        "value": found.value,
        "objective": found.objective,
        "n_clusters": found.n_clusters,
        "method": "prices of rows",
        "gap": found.gap,
        "cluster_gaps": list(found.cluster_gaps),
    }


@pytest.fixture
def bounded(tmp_path, monkeypatch):
    """A run in the working directory, of rows by path, and its bound."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", blobs())
    fit("rows.npy", "run.zarr", DPMeans(PENALTY, random_state=0))
    return lower_bound("run.zarr")


def test_a_run_keeps_its_bound_for_the_next_call_and_for_what_shows_it(bounded, monkeypatch):
    os.remove("rows.npy")  # nothing is read again
    assert lower_bound("run.zarr") == bounded
    said = CliRunner().invoke(main, ["bound", "run.zarr", "--json"])
    assert json.loads(said.stdout)["value"] == bounded.value
    model = load("run.zarr")
    assert (model.lower_bound_, model.gap_) == (bounded.value, bounded.gap)
    assert tuple(model.cluster_gaps_) == bounded.cluster_gaps
    shown = CliRunner().invoke(main, ["show", "run.zarr"]).output
    words = share_above(bounded.gap)
    assert f"gap         {words}; no clusters cost less than {bounded.value:.9g}" in shown
    first = int(np.argmax(bounded.cluster_gaps))
    assert f"gap is of   clusters {first} (" in shown
    described = json.loads(CliRunner().invoke(main, ["show", "run.zarr", "--json"]).output)
    assert described["bound"] == {"value": bounded.value, "gap": bounded.gap}
    assert [each["gap"] for each in described["clusters"]] == list(bounded.cluster_gaps)
    report("run.zarr", "page.html", data=False)
    page = Path("page.html").read_text("utf-8")
    assert f"The objective is {words}." in page
    assert "part of the gap" in page


def test_a_bound_belongs_to_one_fit_of_its_rows(bounded):
    store = RunStore.at("run.zarr")
    other = blobs(seed=1)
    assert lower_bound("run.zarr", other) != bounded  # of rows that are not those of the run
    assert store.bound() == asdict(bounded)
    fit("rows.npy", "run.zarr", DPMeans(PENALTY, random_state=0), force=True)
    assert store.bound() is None
    assert not hasattr(load("run.zarr"), "gap_")
    assert lower_bound("run.zarr", blobs()) == bounded
    assert store.bound() == asdict(bounded)
    remove(store, run_array_names())
    assert not list(store.location.entries())


def test_a_bound_that_cannot_be_kept_is_told_all_the_same(bounded, monkeypatch):
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", 100)  # in passes that are kept too
    monkeypatch.setattr(row_prices, "GOALS", (1e-1, 1e-2))
    expected = lower_bound(load("run.zarr"), blobs())
    fit("rows.npy", "run.zarr", DPMeans(PENALTY, random_state=0), force=True)
    with only_job("run.zarr"), pytest.warns(UserWarning, match="is not kept in .*run.zarr: .*job"):
        assert lower_bound("run.zarr") == expected

    def refused(*_):
        raise PermissionError("no entry")

    with monkeypatch.context() as patched:
        patched.setattr(selection_bounds, "only_job", refused)
        patched.setattr(RunStore, "write_bound", refused)
        said = CliRunner().invoke(main, ["bound", "run.zarr"])
    assert said.exit_code == 0
    assert "the bound is not kept in" in said.stderr
    assert "run.zarr: no entry" in said.stderr
    assert f"lower bound  {expected.value:.9g}" in said.stdout
    assert RunStore.at("run.zarr").bound() is None


@pytest.mark.parametrize(
    ("most", "then"), [(100, "goes on with what .*run.zarr keeps\n"), (2**15, "begins anew\n")]
)
def test_a_command_that_is_stopped_says_what_it_does_next(most, then, bounded, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    fit("rows.npy", "run.zarr", DPMeans(PENALTY, random_state=0), force=True)
    monkeypatch.setattr(selection_bounds, "MANY_ROWS", most)
    monkeypatch.setattr(selection_bounds, "_better", stopped)
    said = CliRunner().invoke(main, ["bound", "run.zarr", "--threads", "1"])
    assert said.exit_code == 3
    assert re.search(f"stopped: the same command {then}", said.stderr)


def test_a_damaged_bound_is_named(bounded):
    path = Path("run.zarr/steps/bound/zarr.json")
    path.write_text(path.read_text("utf-8").replace('"n_clusters"', '"n_cluster"'), "utf-8")
    with pytest.raises(CorruptStoreError, match="the attributes do not match their digest"):
        load("run.zarr")


def test_a_model_has_its_gap_until_the_next_fit():
    X = blobs()
    model = DPMeans(PENALTY, random_state=0).fit(X)
    assert not hasattr(model, "gap_")
    found = lower_bound(model, X)
    assert (model.lower_bound_, model.gap_) == (found.value, found.gap)
    clone = pickle.loads(pickle.dumps(model))
    assert clone.gap_ == found.gap
    assert not hasattr(model.fit(X), "gap_")
    assert not hasattr(model, "cluster_gaps_")


def test_a_model_has_the_gap_of_its_own_rows_and_penalty_alone():
    X = blobs()
    model = DPMeans(PENALTY, random_state=0).fit(X)
    others = lower_bound(model, X[::2])
    assert not hasattr(model, "gap_")
    found = lower_bound(model, X)
    assert lower_bound(model, X[::2]) == others
    assert lower_bound(model, X, np.full(240, 2.0)) != found
    assert (model.lower_bound_, model.gap_) == (found.value, found.gap)
    assert lower_bound(model.set_params(penalty=9.0), X) == found  # it was not fitted at 9


@given(seeds)
@settings(max_examples=5, deadline=None)
def test_parts_of_clusters_are_what_they_cost_beyond_their_rows(seed):
    rng = np.random.default_rng(seed)
    X = blobs(60, int(rng.integers(1, 5)), seed)
    weights = rng.choice([0.5, 1.0, 2.0], 60)
    model = DPMeans(PENALTY, random_state=0).fit(X, sample_weight=weights)
    found = lower_bound(model, X, weights)
    gaps = np.array(found.cluster_gaps)
    assert len(gaps) == model.n_clusters_
    assert gaps.min() >= 0
    assert gaps.sum() == pytest.approx(found.objective - found.value, abs=1e-6 * found.value)


def test_a_run_of_rows_in_memory_asks_for_them(tmp_path):
    X = blobs(50)
    fit(X, tmp_path / "run.zarr", DPMeans(PENALTY, random_state=0), sample_weight=np.ones(50))
    with pytest.raises(InputError, match="the rows of this run were in memory: give them as X"):
        lower_bound(tmp_path / "run.zarr")
    with pytest.raises(InputError, match="the weights of this run were in memory"):
        lower_bound(tmp_path / "run.zarr", X)
    said = CliRunner().invoke(main, ["bound", str(tmp_path / "run.zarr")])
    assert said.exit_code == 2
    assert "give them by --data" in said.output
    assert lower_bound(tmp_path / "run.zarr", X, np.ones(50)).value > 0


@pytest.mark.parametrize(
    ("model", "options", "reason"),
    [
        (DPMeans(PENALTY, search=True, outlier_penalty=9.0), {}, "a price of outliers: all rows"),
        (
            DPMeans(PENALTY, search=True, discount=9.0),
            {},
            "discount=9.0: all clusters must have one",
        ),
        (DPMeans(PENALTY, divergence="poisson"), {}, "divergence='poisson': costs must be squared"),
        (DPMeans(PENALTY, missing="observed"), {}, "missing='observed': rows must be whole"),
        (OnlineDPMeans(PENALTY), {}, "the objective of DPMeans, got OnlineDPMeans"),
        (HDPMeans(PENALTY, PENALTY), {"groups": np.arange(240) % 2}, "DPMeans, got HDPMeans"),
    ],
    ids=repr,
)
def test_other_objectives_are_refused_with_the_reason(model, options, reason):
    X = np.abs(blobs())
    with pytest.raises(InputError, match=f"a lower bound is .*known .*{reason}"):
        lower_bound(model.fit(X, **options), X)


@pytest.mark.parametrize("metric", ["cosine", "haversine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_on_the_sphere_are_near_for_small_clusters(metric, dtype, tmp_path):
    X = (2 * blobs(120) + 3 * np.array([1.0, -1.0])).astype(dtype)
    penalty = {"cosine": 0.3, "haversine": 1e6}[metric]
    X[:, 1] += 30 * (metric == "cosine")
    model = DPMeans(penalty, metric=metric, search=True, random_state=0)
    fit(X, tmp_path / "run.zarr", model)
    found = lower_bound(tmp_path / "run.zarr", X)
    fitted = load(tmp_path / "run.zarr")
    assert found.objective == pytest.approx(fitted.objective_, rel=1e-6)
    assert 0 <= found.gap < 0.01
    assert fitted.gap_ == found.gap


def test_rows_that_do_not_fit_are_refused(monkeypatch):
    X = blobs()
    model = searched(X)
    with pytest.raises(
        InputError, match=r"model must be a fitted DPMeans, .*: the rows come after"
    ):
        lower_bound(np.ones((4, 2)), 9.0)
    with pytest.raises(InputError, match="X must be given"):
        lower_bound(model)
    with pytest.raises(InputError, match="X has 3 "):
        lower_bound(model, np.ones((9, 3)))
    monkeypatch.setattr(selection_bounds, "MOST_NUMBERS", 100)
    with pytest.raises(InputError, match="X has 240 x 2 numbers, and a lower bound takes 100"):
        lower_bound(model, X)
