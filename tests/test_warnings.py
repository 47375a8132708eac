"""Warnings name the line of the user, whichever way the package was called."""

from collections.abc import Callable
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dask_dpmeans import DPMeans, HDPMeans, KernelDPMeans, fit, predict

ROWS = np.random.default_rng(0).normal(size=(60, 2))
EARLY = DPMeans(0.5, search=True, max_iter=1, random_state=0)
EARLY_FITS: dict[str, Callable[[Path], object]] = {
    "an estimator": lambda _: EARLY.fit(ROWS),
    "its fit_predict": lambda _: EARLY.fit_predict(ROWS),
    "data sets": lambda _: HDPMeans(0.5, 1.0, max_iter=1).fit([ROWS[:30], ROWS[30:]]),
    "a kernel": lambda _: KernelDPMeans(0.5, max_iter=1).fit(ROWS),
    "a pipeline": lambda _: make_pipeline(StandardScaler(), EARLY).fit(ROWS),
    "folds": lambda _: cross_val_score(EARLY, ROWS, cv=2),
    "a run": lambda run: fit(ROWS, run, EARLY),
}


@pytest.mark.parametrize("name", EARLY_FITS)
def test_a_fit_that_ends_early_says_so_at_the_line_that_called_it(
    name: str, tmp_path: Path
) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as found:
        EARLY_FITS[name](tmp_path / "run.zarr")
    assert {each.filename for each in found} == {__file__}


def test_processes_for_each_pass_are_warned_of_at_the_line_that_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy, model = da.from_array(ROWS, chunks=20), DPMeans(9.0)
    monkeypatch.setitem(dask.base.named_schedulers, "processes", dask.get)  # starts none here
    with dask.config.set(scheduler="processes"):
        with pytest.warns(UserWarning, match="new processes for each pass") as found:
            model.fit(lazy)
        with pytest.warns(UserWarning, match="new processes for each pass") as in_a_run:
            fit(lazy, tmp_path / "run.zarr", model)
    assert {each.filename for each in [*found, *in_a_run]} == {__file__}


def test_rows_without_the_names_of_a_run_are_warned_of_at_the_line_that_called(
    tmp_path: Path,
) -> None:
    table, model = pd.DataFrame(ROWS, columns=["a", "b"]), DPMeans(9.0)
    fit(table, tmp_path / "run.zarr", model)
    with pytest.warns(UserWarning, match="does not have valid feature names") as found:
        predict(tmp_path / "run.zarr", ROWS, tmp_path / "labels.zarr")
    with pytest.warns(UserWarning, match="does not have valid feature names") as of_model:
        model.fit(table).predict(ROWS)
    assert {each.filename for each in [*found, *of_model]} == {__file__}
