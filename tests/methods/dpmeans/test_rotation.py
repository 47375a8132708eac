"""Choices and searches of fewer rows than columns, in as many columns as rows."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimum import least_objective
from scipy.spatial.distance import cdist
from strategies import seeds
from threadpoolctl import threadpool_limits

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import last_state
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans import chooser, rotation, search, starts
from dask_dpmeans.methods.dpmeans.apart import ApartJob
from dask_dpmeans.methods.dpmeans.chooser import Chosen, choose, choose_from
from dask_dpmeans.methods.dpmeans.clouds import OneModeClouds
from dask_dpmeans.methods.dpmeans.evidence import ComparisonJob
from dask_dpmeans.methods.dpmeans.rotation import Rotation
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters, check_room, choice_bytes
from dask_dpmeans.sources import as_source


def balls(n: int, d: int, k: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    return rng.normal(size=(k, d))[labels] * 2 + rng.normal(size=(n, d)), labels


@given(
    n=st.integers(1, 12),
    d=st.integers(1, 40),
    offset=st.sampled_from([0.0, 1e6]),
    size=st.sampled_from([1e-140, 1.0, 1e140]),
    spherical=st.booleans(),
    seed=seeds,
)
def test_distances_stay_and_centers_come_back(n, d, offset, size, spherical, seed):
    rng = np.random.default_rng(seed)
    rows = size * (rng.normal(size=(n, d)) + offset)
    found = Rotation.of(rows, spherical)
    assert found.coordinates.shape == (n, min(n, d))
    exact = 1e-13 * size * (1 + offset) * np.sqrt(d)
    apart = cdist(found.coordinates, found.coordinates)
    np.testing.assert_allclose(apart, cdist(rows, rows), atol=exact)
    np.testing.assert_allclose(found.lift(found.coordinates), rows, atol=exact)
    if spherical:
        norms = np.linalg.norm(found.coordinates, axis=1)
        np.testing.assert_allclose(norms, np.linalg.norm(rows, axis=1), rtol=1e-13)


def test_rows_far_from_the_origin_lose_nothing():
    rows = balls(20, 400)[0]
    found = Rotation.of(rows + 2.0**20, False).coordinates
    np.testing.assert_allclose(cdist(found, found), cdist(rows, rows), rtol=1e-8)
    assert np.abs(found).max() < 1e3


@given(seeds, st.booleans())
def test_the_order_of_rows_and_copies_of_rows_change_no_coordinates(seed, spherical):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 30))[rng.integers(0, 6, 12)]
    parameters = ChoiceParameters(0, spherical)
    found = parameters.summary(InMemoryRows(rows, None)).rotated()
    again = parameters.summary(InMemoryRows(rng.permutation(rows), None)).rotated()
    np.testing.assert_array_equal(again.coordinates, found.coordinates)
    assert len(found.rows) == len(np.unique(rows, axis=0))


@pytest.mark.parametrize(("n", "d", "wide"), [(40, 49, False), (40, 50, True)])
def test_only_wide_rows_are_rotated(n, d, wide):
    rows = balls(n, d)[0]
    seen = []
    source = SimpleNamespace(run=lambda jobs, shared, name: seen.append(jobs) or [jobs[0](shared)])
    parameters = ChoiceParameters(0, spherical=False)
    found = chooser._prepared(source, InMemoryRows(rows, None), parameters)
    assert found.coordinates.shape == (n, n if wide else d)
    assert len(seen) == wide
    assert (found.coordinates is found.rows) != wide
    centers = np.ones((2, found.coordinates.shape[1]))
    assert (found.lift(centers) is centers) != wide


def wide_rows(kind: str, seed: int = 7) -> Any:
    rng, zeros = np.random.default_rng(seed), np.zeros((200, 260))
    if kind == "balls":
        return balls(60, 200)[0]
    if kind == "few columns of skewed rows":
        return np.c_[np.exp(rng.normal(size=(200, 3))), zeros]
    if kind == "skewed rows":
        return np.exp(rng.normal(size=(200, 1)) * np.linspace(0.2, 1.2, 260))
    if kind == "a grid":
        return np.c_[rng.integers(0, 6, (200, 2)), zeros]
    if kind == "a few rows apart":
        return np.concatenate([rng.normal(size=(150, 260)), rng.normal(size=(12, 260)) + 4])
    return (rng.random((200, 260)) < 0.1).astype(np.float64)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize(
    "kind",
    ["balls", "few columns of skewed rows", "skewed rows", "a grid", "a few rows apart", "binary"],
)
def test_the_choice_is_that_of_the_rows_as_they_are(kind, metric, monkeypatch):
    """Whether columns have one mode, fill a grid or share values is asked of the rows before the rotation."""
    rows = wide_rows(kind)
    source = as_source(rows)
    if metric == "cosine":
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)[:, np.newaxis]
    parameters = ChoiceParameters(0, metric == "cosine")

    def chosen() -> Chosen:
        return choose_from(source, InMemoryRows(rows, None), parameters)

    found = chosen()
    monkeypatch.setattr(rotation, "WIDE", np.inf)
    wanted = chosen()
    assert found.choice.n_clusters == wanted.choice.n_clusters
    if kind in ("a grid", "binary"):
        return  # distances that tie are rounded another way
    assert found.choice.penalty == pytest.approx(wanted.choice.penalty, rel=1e-9)
    assert found.choice.evidence == pytest.approx(wanted.choice.evidence, rel=1e-9, abs=1e-9)
    assert found.choice.apart == wanted.choice.apart
    for mine, other in zip(found.choice.alternatives, wanted.choice.alternatives, strict=True):
        assert mine.n_clusters == other.n_clusters
        assert (mine.stability or 0) == pytest.approx(other.stability or 0, rel=1e-9)
    for mine, other in zip(
        (*found.centers, *found.halves), (*wanted.centers, *wanted.halves), strict=True
    ):
        apart = cdist(mine, other)  # they may come in another order
        assert len(mine) == len(other)
        assert max(apart.min(axis=0).max(), apart.min(axis=1).max()) < 1e-9 * np.abs(rows).max()


def test_skewed_rows_with_columns_of_zeros_are_one_cluster():
    assert DPMeans(random_state=0).fit(wide_rows("few columns of skewed rows")).n_clusters_ == 1


def test_a_column_of_two_values_gives_no_gap():
    rng = np.random.default_rng(0)
    rows = np.c_[rng.integers(0, 2, 120), 1e-3 * rng.random((120, 200))]
    given = ChoiceParameters(0, spherical=False).summary(InMemoryRows(rows, None)).rotated()
    centers = np.zeros((2, 201))
    centers[1, 0] = 1
    assert ApartJob(0, (centers, centers))(given) is False
    apart = replace(given, rows=given.rows + 0.1 * rng.random((120, 1)))
    assert ApartJob(0, (centers, centers))(apart) is True


def test_clouds_of_many_columns_are_rotated_too():
    rows = np.exp(np.random.default_rng(0).normal(size=(40, 1)) * np.ones(60))
    rows += 1e-3 * np.random.default_rng(1).random(rows.shape)
    given = ChoiceParameters(0, spherical=False).summary(InMemoryRows(rows, None))
    compared = ComparisonJob(2)(given)
    skewed = replace(compared, clouds=OneModeClouds.of(given.rows, given.weights, 1.0))
    cloud = skewed.cloud(0)
    assert cloud.rows.shape == (len(rows), 60)
    assert cloud.coordinates.shape == (len(rows), len(rows))


def test_any_number_of_threads_of_linear_algebra_finds_the_same_bytes():
    rows = np.random.default_rng(0).normal(size=(300, 1500))
    rows[:100] += 0.3
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(choose(as_source(rows), 0))
    assert found[0].choice == found[1].choice
    pairs = [(*each.centers, *each.halves) for each in found]
    for mine, other in zip(*pairs, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_centers_of_a_choice_are_among_the_rows():
    rows, labels = balls(60, 200)
    means = np.array([rows[labels == each].mean(axis=0) for each in range(3)])
    found = choose(as_source(rows), 0)
    assert found.choice.n_clusters == 3
    apart = cdist(found.centers[0], means)
    np.testing.assert_allclose(apart.min(axis=0), 0, atol=1e-12)
    for half in found.halves:
        assert half.shape == means.shape
        assert sorted(cdist(half, means).argmin(axis=0)) == [0, 1, 2]


def test_a_choice_of_few_rows_of_many_columns_needs_their_copies_alone():
    copies = 8 * 200 * 10**6
    assert 8 * copies < choice_bytes(200, 10**6) < 12 * copies
    source = SimpleNamespace(
        plan=SimpleNamespace(n_rows=200), summary=SimpleNamespace(sums=np.zeros(10**6)), room=2**35
    )
    check_room(source)
    source.summary.sums = np.zeros(10**7)
    with pytest.raises(InputError, match="200 dense rows of 10,000,000 columns"):
        check_room(source)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("seed", range(40))
def test_a_search_of_wide_rows_ends_at_the_optimum(metric, seed, monkeypatch):
    rng, ran = np.random.default_rng(seed), []
    lift = Rotation.lift
    monkeypatch.setattr(search, "SHORT_NUMBERS", 0)  # these rows are few, too
    monkeypatch.setattr(Rotation, "lift", lambda *given: ran.append(given) or lift(*given))
    n = int(rng.integers(2, 8))
    rows = rng.normal(size=(n, 2 * n + rng.integers(0, 40))) + rng.integers(0, 2, (n, 1))
    weights = rng.integers(1, 4, n).astype(np.float64) if seed % 2 else np.ones(n)
    mean = np.average(rows, axis=0, weights=weights)
    spread = n if metric == "cosine" else float(weights @ ((rows - mean) ** 2).sum(axis=1))
    penalty = rng.uniform(0.02, 0.6) * spread
    model = DPMeans(penalty, metric=metric, search=True, random_state=0)
    found = model.fit(rows, sample_weight=weights)
    assert found.objective_ == pytest.approx(
        least_objective(rows, weights, penalty, metric), rel=1e-9
    )
    assert found.cluster_centers_.shape == (found.n_clusters_, rows.shape[1])
    assert ran


def noisy(n: int, d: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, d))[rng.integers(0, 4, n)] * 0.4 + rng.normal(size=(n, d))


def test_any_chunks_and_threads_search_wide_rows_to_the_same_bytes():
    rows = noisy(120, 900)
    penalty = 0.03 * float(((rows - rows.mean(axis=0)) ** 2).sum())

    def bytes_of(given: Any) -> bytes:
        model = DPMeans(penalty, search=True, random_state=0).fit(given)
        assert model.n_clusters_ > 2
        return b"".join(
            np.asarray(each).tobytes() for each in (model.cluster_centers_, model.labels_)
        )

    wanted = bytes_of(rows)
    with threadpool_limits(2):
        assert bytes_of(rows) == wanted
    for height in (7, 50, 120):
        assert bytes_of(da.from_array(rows, chunks=(height, -1))) == wanted


@pytest.mark.parametrize("how", [{}, {"outlier_share": 0.1}, {"metric": "cosine"}])
@pytest.mark.parametrize("effort", ["quick", "normal", "best"])
def test_a_search_of_wide_rows_is_as_low_as_one_in_all_columns(how, effort, monkeypatch):
    below = []
    for seed in range(1 if effort == "best" else 2):
        rows = noisy(100, 700, seed)
        spread = 60.0 if how.get("metric") == "cosine" else 65_000.0
        model = DPMeans(0.05 * spread, search=True, effort=effort, random_state=0, **how)
        found = model.fit(rows).objective_
        with monkeypatch.context() as patch:
            patch.setattr(rotation, "WIDE", np.inf)
            below.append(found / model.fit(rows).objective_)
    assert np.mean(below) <= 1.001


def test_what_is_searched_in_fewer_columns():
    method = search.Method(penalty=1.0)
    assert starts.may_rotate(method, 100, 125)
    assert not starts.may_rotate(method, 100, 124)
    assert starts.may_rotate(method, 2**10, 10 * 2**10)
    assert not starts.may_rotate(method, 2**10, 10 * 2**10 + 1)
    assert starts.may_rotate(replace(method, coreset_rows=0), 100, 200)
    assert not starts.may_rotate(replace(method, coreset_rows=50), 100, 200)
    assert not starts.may_rotate(replace(method, centers=np.ones((1, 200))), 100, 200)
    counts = replace(method, learned=SimpleNamespace(general="a divergence"))
    assert not starts.may_rotate(counts, 100, 200)


def test_a_search_of_wide_rows_counts_its_clusters_and_ends_with_passes_over_the_rows():
    rows = noisy(100, 700)
    source = as_source(rows)
    with pytest.raises(TooManyClustersError, match="max_clusters=5"):
        last_state(source, search.Method(10.0, max_clusters=5))
    end = last_state(source, search.Method(2000.0))
    labels = cdist(rows, end.centers).argmin(axis=1)
    means = np.array([rows[labels == each].mean(axis=0) for each in range(len(end.centers))])
    np.testing.assert_allclose(end.centers, means, rtol=1e-12, atol=1e-12)
    inertia = ((rows - means[labels]) ** 2).sum()
    assert end.objective == pytest.approx(inertia + 2000.0 * len(means), rel=1e-12)


def test_a_best_search_evolves_wide_rows_in_fewer_columns_alone(monkeypatch):
    widths = []
    evolve = search.evolve
    monkeypatch.setattr(
        search, "evolve", lambda *given: widths.append(given[2].centers.shape[1]) or evolve(*given)
    )
    last_state(as_source(noisy(100, 700)), search.Method(2000.0, effort="best"))
    assert set(widths) == {100}


@given(st.integers(10, 60), st.integers(24, 40), st.floats(0.01, 0.3), seeds)
def test_in_many_columns_a_search_ends_as_low_as_short_searches(n, d, share, seed):
    rows = noisy(n, d, seed)
    method = search.Method(share * float(((rows - rows.mean(axis=0)) ** 2).sum()))
    source = InMemoryRows(rows, None)
    gathered = source.fold(Gather())
    short = starts.search_shortly(method, source, gathered, stream(0, Stream.SHORT_SEARCHES))
    least = starts._objective(gathered, short, method.price)
    assert last_state(source, method).objective <= least * (1 + 1e-12)


def test_trials_lead_lower_than_short_searches_where_noise_is_much(monkeypatch):
    ratios = []
    for seed in range(3):
        rows = noisy(60, 200, seed)
        method = search.Method(0.05 * float(((rows - rows.mean(axis=0)) ** 2).sum()))
        found = last_state(InMemoryRows(rows, None), method).objective
        with monkeypatch.context() as patch:
            patch.setattr(search, "MANY_COLUMNS", 1000)
            ratios.append(found / last_state(InMemoryRows(rows, None), method).objective)
    assert np.mean(ratios) < 0.995


def test_trials_with_too_many_clusters_are_left_out():
    rows = noisy(60, 200, 1)
    method = search.Method(0.05 * float(((rows - rows.mean(axis=0)) ** 2).sum()))
    found = len(last_state(InMemoryRows(rows, None), method).centers)
    end = last_state(InMemoryRows(rows, None), replace(method, max_clusters=found - 1))
    assert len(end.centers) < found


def test_scaled_columns_and_columns_that_are_divided_before_have_the_same_search():
    rows = noisy(60, 200) * np.linspace(0.5, 20, 200)
    scale = rows.std(axis=0)
    method = search.Method(0.05 * 60 * 200)
    ends = [
        last_state(InMemoryRows(rows / scale, None, scale=each), method) for each in (None, scale)
    ]
    np.testing.assert_array_equal(ends[0].centers, ends[1].centers)
    assert ends[0].rows_read == ends[1].rows_read


def test_rows_of_no_weight_are_in_no_cluster_of_a_search():
    rows = noisy(100, 700)
    method = search.Method(2000.0)
    ends = [
        last_state(InMemoryRows(np.ascontiguousarray(some), weights), method)
        for some, weights in (
            (rows, None),
            (np.concatenate([rows, rows[:5] + 1]), np.append(np.ones(100), np.zeros(5))),
        )
    ]
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-3)
    assert ends[1].weights.sum() == 100
