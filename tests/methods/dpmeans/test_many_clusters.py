"""Choices of more clusters than are tried at first: when they are found, and that others stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from strategies import seeds

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.methods.dpmeans import chooser, summary
from dask_dpmeans.methods.dpmeans.choice import Choice, score
from dask_dpmeans.methods.dpmeans.chooser import STANDS_OUT, IntervalsJob, choose
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters, choice_bytes, most_looked_at
from dask_dpmeans.sources import as_source


def grid(side: int, each: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows around the points of a square grid of step 1, and the point of each."""
    rng = np.random.default_rng(seed)
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    labels = np.repeat(np.arange(side * side), each)
    return points[labels] + rng.normal(0, spread, (len(labels), 2)), labels


def chosen(rows: np.ndarray, seed: int = 0) -> Choice:
    return choose(as_source(rows), seed).choice


@pytest.mark.parametrize(("side", "each"), [(14, 6), (15, 9)])
def test_many_separate_clusters_are_found(side: int, each: int) -> None:
    rows, labels = grid(side, each, 0.04, side)
    model = DPMeans(random_state=0).fit(rows)
    assert model.n_clusters_ == model.choice_.n_clusters == side**2
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.choice_.tried == max(len(rows) // 4, 2 * int(len(rows) ** 0.5))


@settings(max_examples=12, deadline=None)
@given(
    seed=seeds,
    n=st.integers(300, 900),
    d=st.integers(1, 4),
    kind=st.sampled_from(["uniform", "normal", "lognormal", "few", "rounded"]),
)
def test_other_choices_are_the_same_as_without_a_further_look(
    seed: int, n: int, d: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    if kind == "uniform":
        rows = rng.random((n, d))
    elif kind == "lognormal":
        rows = np.exp(rows)
    elif kind == "few":
        rows += 12.0 * rng.integers(0, 3, (n, 1))
    elif kind == "rounded":
        rows = np.round(rows, 1)
    found = chosen(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "MOST_LOOKED_AT", 0)
        before = chosen(rows)
    assert replace(found, tried=before.tried) == before
    assert found.tried >= before.tried


def test_a_further_number_must_stand_out_and_beat_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, _ = grid(14, 6, 0.04, 3)
    summary = ChoiceParameters(0, spherical=False).summary(InMemoryRows(rows, None))
    looked = IntervalsJob(further=True)(summary)
    first = looked.ranked[0]
    assert 196 <= first.n_clusters <= 216  # numbers are looked at 1/20 apart
    assert score(first) > STANDS_OUT
    monkeypatch.setattr(chooser, "STANDS_OUT", 1.001 * score(first))
    assert chosen(rows).n_clusters < 150
    monkeypatch.setattr(chooser, "STANDS_OUT", 0.9 * score(first))
    assert chosen(rows).n_clusters == 196


def test_groups_that_are_clearer_than_their_clusters_are_chosen() -> None:
    """Nine groups of 25 small clusters: the groups have the longer range."""
    rows, labels = grid(15, 5, 0.12, 4)
    rows += 60.0 * np.stack((labels % 15 // 5, labels // 15 // 5), -1)
    assert chosen(rows).n_clusters == 9


def replicates() -> np.ndarray:
    """300 samples of three groups far apart, each measured six times."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(300, 3)) + 40 * np.eye(3)[0] * rng.integers(0, 3, 300)[:, None]
    return np.repeat(samples, 6, axis=0) + rng.normal(0, 0.02, (1800, 3))


def test_clear_groups_are_chosen_though_their_parts_have_a_higher_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """300 has a score of 25, three groups have 12: not four times as much."""
    rows = replicates()
    assert chosen(rows).n_clusters == 3
    monkeypatch.setattr(chooser, "CLEARLY", 1.0)
    assert chosen(rows).n_clusters == 300


def test_cells_of_rounded_columns_are_no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of the rows have other numbers of cells."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.round(rng.normal(0, 4, (2000, 2))), rng.normal(0, 0.05, 2000)])
    assert chosen(rows).n_clusters == 1
    monkeypatch.setattr(chooser, "REPLICATED", 0.0)
    assert chosen(rows).n_clusters > 200


def test_heavy_rows_do_not_hide_clusters() -> None:
    """180 of 1,000 rows have nearly all of the weight: as many are not clusters of their own."""
    rng = np.random.default_rng(0)
    places = 6.0 * np.stack(np.meshgrid(range(3), range(3)), -1).reshape(-1, 2)
    rows = rng.normal(size=(1000, 2)) + places[rng.integers(0, 4, 1000)]
    weights = np.ones(1000)
    weights[:180] = 1e5 * rng.uniform(0.5, 1.5, 180)
    assert choose(as_source(rows, weights), 0).choice.n_clusters == 4


@pytest.mark.parametrize(("k", "each"), [(170, 9), (140, 9)])
def test_a_number_just_beyond_the_first_ones_is_found(k: int, each: int) -> None:
    """Up to 192 clusters are tried at first, of which 153 can be chosen."""
    rows, _ = grid(14, each, 0.04, 6)
    assert chosen(rows[: k * each]).n_clusters == k


def test_the_look_counts_in_the_memory_of_a_choice() -> None:
    for rows, d in [(12_288, 2), (6_144, 10), (6_144, 128), (6_144, 784), (200, 20_000)]:
        most = most_looked_at(rows, d)
        assert most * (most + 1) // 2 * d <= 1.01 * summary.MOST_NUMBERS + d * most
        assert choice_bytes(rows, d) >= 8 * min(rows, d) * most * (most + 1) // 2


def test_few_rows_a_cluster_are_not_looked_at() -> None:
    rows, _ = grid(15, 3, 0.04, 5)
    found = chosen(rows)
    assert found.tried == len(rows) // 4
    assert found.n_clusters < 200
