"""The rows that choose a penalty, and jobs on them."""

import numpy as np
import pytest
from hypothesis import given
from strategies import seeds

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.methods.dpmeans import chooser
from dask_dpmeans.methods.dpmeans.chooser import choose
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters
from dask_dpmeans.sources import as_source


@given(seeds)
def test_equal_rows_of_a_summary_become_one_in_lexicographic_order(seed: int) -> None:
    """Rows whose first columns all differ are sorted by these alone."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 30), rng.integers(1, 4)
    rows = rng.choice([rng.normal(size=(n, d)), rng.integers(-2, 3, (n, d)).astype(float)])
    rows = np.where(rng.random(rows.shape) < 0.1, -0.0, rows)
    weights = rng.uniform(0.5, 2.0, len(rows)) if seed % 2 else None
    summary = ChoiceParameters(0, spherical=False).summary(InMemoryRows(rows, weights))
    sums: dict[tuple[float, ...], float] = {}
    for row, weight in zip(rows.tolist(), np.ones(n) if weights is None else weights, strict=True):
        sums[tuple(row)] = sums.get(tuple(row), 0.0) + weight
    assert list(map(tuple, summary.rows.tolist())) == sorted(sums)
    assert summary.weights.tolist() == pytest.approx([sums[row] for row in sorted(sums)])
    assert not np.signbit(summary.rows[summary.rows == 0]).any()
    assert summary.rows.flags.c_contiguous


def test_jobs_on_few_rows_choose_as_they_do_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows, jobs = rng.normal(size=(90, 2)) + 9.0 * rng.integers(0, 2, (90, 2)), []
    source, found = as_source(rows), []
    run = type(source).run
    monkeypatch.setattr(
        type(source), "run", lambda self, *given: jobs.append(len(given[0])) or run(self, *given)
    )
    for few in (90, 89):
        monkeypatch.setattr(chooser, "FEW_ROWS", few)
        found.append(choose(source, 0).choice)
    assert found[0] == found[1]
    clouds = [
        1,
        5,
        1,
    ]  # what is compared, the rows and four clouds, and whether columns have one mode
    assert jobs == [1, 1, 1, 2, 2, *clouds]
