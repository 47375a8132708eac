"""Runs that were written once are read, and come out again: see `golden_runs`."""

from pathlib import Path

import golden_runs
import numpy as np
import pytest

from dask_dpmeans import load
from dask_dpmeans.api.loading import read_run
from dask_dpmeans.engine.history import INTEGERS, Record

TOLERANCE = 1e-12
"""Relative to the largest of an array: what another CPU or BLAS may round otherwise.  Labels are the same."""

EACH = pytest.mark.parametrize("name", golden_runs.METHODS)


@pytest.fixture
def kept(name: str, tmp_path: Path) -> Path:
    return golden_runs.unpacked(name, tmp_path)


def same_figures(one: Record, other: Record) -> bool:
    """Whether two steps made the same counts, and the same sums to the tolerance; seconds aside."""
    counts = all(getattr(one, name) == getattr(other, name) for name in INTEGERS)
    figures = ("objective", "inertia", "passes", "merge_gain", "split_gain", "delete_gain")
    sums = [[getattr(record, name) for name in figures] for record in (one, other)]
    return counts and np.allclose(*sums, rtol=TOLERANCE, atol=TOLERANCE * other.objective)


@EACH
def test_a_fit_comes_out_as_it_did(name: str, kept: Path, tmp_path: Path) -> None:
    model, before = golden_runs.fitted(name, tmp_path / "again"), load(kept)
    np.testing.assert_array_equal(model.labels_.compute(), before.labels_.compute())
    again, result = (read_run(run) for run in (tmp_path / "again", kept))
    assert again.arrays.keys() == result.arrays.keys()
    for key, values in result.arrays.items():
        atol = TOLERANCE * np.abs(values).max(initial=0.0)
        np.testing.assert_allclose(
            again.arrays[key], values, rtol=TOLERANCE, atol=atol, err_msg=key
        )
    assert model.n_iter_ == before.n_iter_
    assert all(map(same_figures, model.history_, before.history_))


@EACH
def test_a_run_of_then_predicts_now(name: str, kept: Path) -> None:
    rows, model = np.load(golden_runs.FOLDER / "rows.npy"), load(kept)
    groups = {
        key: value for key, value in golden_runs.options(name, rows).items() if key == "groups"
    }
    np.testing.assert_array_equal(model.predict(rows, **groups), model.labels_.compute())


@EACH
def test_a_run_that_is_kept_names_no_path(name: str, kept: Path) -> None:
    assert set(read_run(kept).manifest.sources.values()) == {None}
