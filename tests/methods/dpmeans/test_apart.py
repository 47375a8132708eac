"""Clusters with gaps between them, which are clusters however little error they save."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.methods.dpmeans import chooser
from dask_dpmeans.methods.dpmeans.apart import FEWEST, ApartJob, lie_apart, spread_ties
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, Choice
from dask_dpmeans.methods.dpmeans.chooser import choose
from dask_dpmeans.methods.dpmeans.clouds import MOST_EVIDENCE, deviate_from_clouds
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters
from dask_dpmeans.sources import as_source

ENDS = np.array([[-1.0, 0.0], [1.0, 0.0]])
PARAMETERS = ChoiceParameters(0, spherical=False)


def uneven(seed: int, n: int, few: int, distance: float, d: int = 2) -> np.ndarray:
    """Return a normal cluster of n rows and one of a few."""
    rows = np.random.default_rng(seed).normal(size=(n + few, d))
    rows[n:, 0] += distance
    return rows


def apart(rows: np.ndarray, centers: np.ndarray) -> bool:
    return lie_apart(rows, np.ones(len(rows)), centers)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("d", [2, 10])
def test_a_small_cluster_beside_a_large_one_is_found(seed: int, d: int) -> None:
    found = choose(as_source(uneven(seed, 1900, 100, 8.0, d)), 0).choice
    assert (found.n_clusters, found.apart) == (2, True)
    assert found.evidence < EVIDENCE
    assert found.headline == "2 clusters: hardly any rows are between them"
    assert Choice.from_json(json.loads(json.dumps(found.as_json()))) == found
    with pytest.raises(ValueError, match="apart cannot be 1"):
        Choice.from_json(found.as_json() | {"apart": 1})


@pytest.mark.parametrize(
    ("distance", "gap"), [(3.0, False), (4.0, False), (9.0, True), (12.0, True)]
)
@given(seeds)
def test_normal_clusters_lie_apart_if_they_are_far(distance: float, gap: bool, seed: int) -> None:
    rows = uneven(seed, 500, 60, distance)
    assert apart(rows, np.array([[0.0, 0.0], [distance, 0.0]])) == gap


@given(seeds, st.sampled_from(["square", "ring", "exponential", "t", "integers", "bits"]))
def test_one_cluster_that_is_cut_does_not_lie_apart(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    n = 600
    if kind == "ring":
        rows = rng.normal(size=(n, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    elif kind == "exponential":
        rows = rng.exponential(size=(n, 2)) - 1.0
    elif kind == "t":
        rows = rng.standard_t(2, (n, 2))
    elif kind == "integers":
        rows = rng.integers(-2, 3, (n, 2)).astype(np.float64)
    elif kind == "bits":
        rows = 2.0 * rng.integers(0, 2, (n, 2)) - 1.0
    else:
        rows = rng.uniform(-2.0, 2.0, (n, 2))
    assert not apart(spread_ties(rows, rng), ENDS)


def test_clusters_that_touch_another_way_round_do_not_lie_apart() -> None:
    """Of three clusters in a row, the middle one touches the last."""
    rows = np.vstack([uneven(0, 300, 300, 20.0), uneven(1, 1, 300, 23.0)[1:]])
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [23.0, 0.0]])
    assert apart(rows[:600], centers[:2])
    assert not apart(rows, centers)
    assert not apart(rows, centers[::-1])
    assert not apart(rows[:600], centers[:1])


def test_a_few_rows_far_away_are_outliers() -> None:
    rows = uneven(0, 500, FEWEST, 40.0)
    centers = np.array([[0.0, 0.0], [40.0, 0.0]])
    assert apart(rows, centers)
    assert not apart(rows[:-1], centers)


def test_the_gap_is_looked_for_in_the_other_half() -> None:
    """In many columns, centers of few rows have a gap between these rows, and between no others."""
    rows = np.random.default_rng(0).normal(size=(200, 2000))
    summary = PARAMETERS.summary(InMemoryRows(rows, None))
    halves = [part > 0 for part in summary.parts(0)]
    fits = tuple(
        np.stack([own[: len(own) // 2].mean(axis=0), own[len(own) // 2 :].mean(axis=0)])
        for own in (summary.rows[half] for half in halves)
    )
    own = [apart(summary.rows[half], fit) for half, fit in zip(halves, fits, strict=True)]
    assert own == [True, True]
    assert ApartJob(0, fits)(summary) is False


@given(seeds)
def test_ties_are_spread_up_to_the_middles_and_other_values_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.c_[rng.integers(0, 5, 80), rng.permutation(80)].astype(np.float64)
    spread = spread_ties(rows, rng)
    assert (np.abs(spread[:, 0] - rows[:, 0]) <= 0.5).all()
    assert len(np.unique(spread[:, 0])) == 80
    assert spread[:, 1].tolist() == rows[:, 1].tolist()
    assert (spread_ties(np.ones((3, 1)), rng) == 1).all()


def test_no_clouds_are_drawn_where_none_could_give_enough_evidence(monkeypatch) -> None:
    """Evidence is the deviates, at most so many, times the stability."""
    most = deviate_from_clouds((-1e9, 1e9), lambda numbers: [(0.0, 0.0) for _ in numbers])
    assert most == pytest.approx(MOST_EVIDENCE)
    rows = as_source(np.random.default_rng(0).standard_t(2, (600, 40)))
    found = choose(rows, 0).choice
    assert found.n_clusters == 1
    assert found.evidence == 0
    assert "do not agree on it" in found.reason
    second = found.alternatives[1].stability
    assert second is not None
    assert second * MOST_EVIDENCE < EVIDENCE
    drawn = list[int]()
    real = chooser._evidence
    monkeypatch.setattr(
        chooser, "_evidence", lambda *given: drawn.append(given[-1]) or real(*given)
    )
    choose(rows, 0)
    assert not drawn
    assert choose(as_source(uneven(0, 90, 90, 9.0)), 0).choice.n_clusters == 2
    assert drawn == [2]


def test_a_cluster_whose_rows_project_to_one_place_is_no_warning():
    """Half of the rows between the quartiles, on a width of 0, are infinitely dense."""
    line = np.arange(20.0)
    one = np.c_[line, -line]
    rows = np.concatenate([one, one + 100])
    centers = np.array([[0.0, 0.0], [100.0, 100.0]])
    assert lie_apart(rows, np.ones(40), centers)
