"""Fits of counts, shares, categories, holes and outliers are what the slow references say, row by row.

`DPMEANS_INSTANCES=300 python -m pytest tests/test_rows_as_they_are.py -k best_partition` takes 300 instances of
each kind instead of 12.
"""

import os
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_cases import NAMED, searched
from rows_reference import OUTLIER
from strategies import chunkings

from dask_dpmeans import fit, load
from dask_dpmeans.methods.dpmeans import search, short_searches

SEEDS = range(int(os.environ.get("DPMEANS_INSTANCES", "12")))
ALL = sorted(NAMED)
RADIUS = [name for name in ALL if "outliers" not in name]
"""Kinds for which a penalty can be a radius."""
TIED = "categorical missing"
"""A kind of which many rows cost equally much at two centers, to rounding, so that either is right."""


def assert_labels_are_cheapest(rows, labels):
    """Each row is at the center that is cheapest by the reference, but for ties to 1e-9."""
    labels = np.asarray(labels)
    numbers = np.unique(labels[labels != OUTLIER])
    costs = rows.costs([rows.center(np.flatnonzero(labels == c)) for c in numbers])
    for row, (label, mine) in enumerate(zip(labels.tolist(), costs, strict=True)):
        if rows.factors[row] == 0:
            assert label == OUTLIER
            continue
        least = min(mine.min(), rows.outlier_penalty)
        paid = rows.outlier_penalty if label == OUTLIER else mine[numbers.tolist().index(label)]
        assert paid <= least + 1e-9 * (1 + least)


@pytest.mark.timeout(20 * len(SEEDS))
@pytest.mark.parametrize("name", ALL)
def test_the_search_finds_the_best_partition_of_few_rows_and_says_what_it_costs(name):
    ratios = []
    for seed in SEEDS:
        instance, model = searched(name, seed)
        labels = np.asarray(model.labels_)
        assert model.n_clusters_ == len(set(labels[labels != OUTLIER].tolist()))
        wanted = instance.rows.objective(labels, instance.price)
        assert model.objective_ == pytest.approx(wanted, rel=1e-9)
        assert_labels_are_cheapest(instance.rows, labels)
        assert all(after.objective < before.objective for before, after in pairwise(model.history_))
        ratios.append(model.objective_ / instance.rows.optimum(instance.price))
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) <= 1.03
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97


@pytest.mark.parametrize("name", ALL)
def test_moves_gain_at_least_what_they_say_without_moves_of_single_rows(name, monkeypatch):
    monkeypatch.setattr(search, "EXCHANGES_BELOW", 0)
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 0)
    monkeypatch.setattr(search, "NARROW", 0)
    made = 0
    for seed in range(16):
        if made and seed >= 4:
            break
        instance = NAMED[name].instance(seed, 200)
        model = instance.model(search=True, random_state=seed, tol=0.0)
        model.fit(instance.rows.X, sample_weight=instance.rows.weights)
        for before, after in pairwise(model.history_):
            gains = after.merge_gain + after.split_gain + after.delete_gain
            if after.merges + after.splits + after.deletes:
                made += 1
                assert before.objective - after.objective >= gains - 1e-9 * before.objective
        wanted = instance.rows.objective(model.labels_, instance.price)
        assert model.objective_ == pytest.approx(wanted, rel=1e-9)
    assert made


@pytest.mark.parametrize("name", [name for name in RADIUS if name != TIED])
@pytest.mark.parametrize("seed", range(3))
def test_a_radius_fit_is_serial_sweeps_until_nothing_changes(name, seed):
    instance = NAMED[name].instance(seed, 120)
    rows, model = instance.rows, instance.radius_model(tol=0.0)
    model.fit(rows.X, sample_weight=rows.weights)
    labels, centers = rows.radius_fit(instance.radius)
    assert model.labels_.tolist() == labels.tolist()
    assert model.n_clusters_ == len(centers) > 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_with_ties_opens_as_many_clusters_and_costs_as_much_as_a_serial_sweep(seed):
    instance = NAMED[TIED].instance(seed, 120)
    rows, penalty = instance.rows, instance.radius
    centers, labels, costs = rows.sweep([rows.center(range(120))], penalty)
    distances = np.sort(rows.costs(centers), axis=1)
    assert (distances[:, 1] - distances[:, 0] < 1e-9).any()
    model = instance.radius_model(max_iter=1)
    model.fit(rows.X, sample_weight=rows.weights)
    assert model.history_[0].births == len(centers) - 1
    counted = np.where(rows.factors > 0, rows.weights, 0.0)
    assert model.inertia_ == pytest.approx(counted @ costs, rel=1e-9)
    assert (model.labels_ == OUTLIER).tolist() == (labels == OUTLIER).tolist()


@pytest.mark.parametrize("name", ALL)
def test_weights_count_as_repeated_rows(name):
    for seed in range(4):
        instance, model = searched(name, seed, 5)
        rows = instance.rows
        repeated = np.repeat(rows.X, rows.weights.astype(int), axis=0)
        again = instance.model(search=True, random_state=seed).fit(repeated)
        assert again.objective_ == pytest.approx(model.objective_, rel=1e-9)


def figures(model):
    """The bytes of a fit."""
    arrays = model.cluster_centers_, model.cluster_weights_, np.asarray(model.labels_)
    return [model.objective_.hex(), *(array.tobytes() for array in arrays)]


@pytest.mark.parametrize(
    ("name", "searching"), [*((name, True) for name in ALL), *((name, False) for name in RADIUS)]
)
@pytest.mark.usefixtures("few_kicks")
def test_chunks_and_threads_do_not_show_in_any_byte(name, searching):
    instance = NAMED[name].instance(5, 60)
    rows, model = instance.rows, instance.radius_model(random_state=0)
    if searching:
        model = instance.model(search=True, random_state=0)
    expected = figures(model.fit(rows.X, sample_weight=rows.weights))

    @settings(max_examples=3)
    @given(chunkings(60), st.sampled_from(["threads", "synchronous"]))
    def compare(sizes, scheduler):
        X = da.from_array(rows.X, chunks=(sizes, -1))
        with dask.config.set(scheduler=scheduler):
            assert figures(model.fit(X, sample_weight=rows.weights)) == expected

    compare()


@pytest.mark.usefixtures("few_kicks")
@pytest.mark.parametrize("name", ALL)
def test_rows_are_predicted_where_the_fit_has_them_also_from_a_store(name, tmp_path):
    instance = NAMED[name].instance(6, 90)
    rows = instance.rows
    np.save(tmp_path / "rows.npy", rows.X)
    model = instance.model(search=True, random_state=0)
    here = model.fit(rows.X, sample_weight=rows.weights)
    assert here.predict(rows.X).tolist() == here.labels_.tolist()
    run = tmp_path / "run.zarr"
    model = instance.model(search=True, random_state=0)
    stored = fit(tmp_path / "rows.npy", run, model, sample_weight=rows.weights)
    assert figures(stored) == figures(here) == figures(load(run))
    assert load(run).predict(rows.X).tolist() == here.labels_.tolist()
    assert load(run).predict(rows.X[40:41]).tolist() == here.labels_[40:41].tolist()


@pytest.mark.usefixtures("few_kicks")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:.*max_iter")
def test_a_run_that_stopped_at_max_iter_goes_on_to_the_same_bytes(name, tmp_path):
    instance = NAMED[name].instance(7, 90)

    def fitted(run, max_iter, resume=False):
        model = instance.model(search=True, random_state=0, max_iter=max_iter)
        weights = instance.rows.weights
        return fit(instance.rows.X, tmp_path / run, model, sample_weight=weights, resume=resume)

    whole = fitted("whole.zarr", 300)
    fitted("run.zarr", 2)
    resumed = fitted("run.zarr", 300, resume=True)
    assert figures(resumed) == figures(whole)
    for key, array in zarr.open_group(tmp_path / "whole.zarr", mode="r").arrays():
        if key != "seconds":
            other = zarr.open_array(tmp_path / "run.zarr" / key)
            assert other[...].tobytes() == array[...].tobytes(), key
