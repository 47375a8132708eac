"""A table with noise, categories and holes, fitted by the command line, killed and resumed: the same bytes.

A child process is killed with SIGKILL before the n-th change of its output.  What is left is resumed by the same
command with `--resume`.
"""

import multiprocessing
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import kills
import numpy as np
import pandas as pd
import pytest
import zarr

from dask_dpmeans.cli import main

CLUSTERS = 3
COLUMNS = "length,width,visits,color"
OPTIONS = (
    *("--penalty", "60", "--search", "--seed", "0", "--threads", "1"),
    *("--divergence", "visits=poisson,color=categorical"),
    *("--missing", "observed", "--outlier-penalty", "12"),
)


def table(n: int = 240, noise: int = 8) -> pd.DataFrame:
    """Three clusters in columns of each kind, a tenth of the values missing; noise is far away, and last."""
    rng = np.random.default_rng(0)
    classes = np.arange(n) % CLUSTERS
    sizes = 8.0 * classes[:, np.newaxis] + rng.standard_normal((n, 2))
    sizes[-noise:] = rng.uniform(60.0, 200.0, (noise, 2)) * rng.choice([-1.0, 1.0], (noise, 2))
    visits = rng.poisson(np.array([2.0, 9.0, 30.0])[classes]).astype(np.float64)
    numbers = np.column_stack([sizes, visits])
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    numbers[-noise:, :2] = sizes[-noise:]
    colors = np.array(["red", "green", "blue"])[np.where(rng.random(n) < 0.8, classes, 0)]
    found = pd.DataFrame(numbers, columns=["length", "width", "visits"])
    found["color"] = pd.Categorical(np.where(rng.random(n) < 0.1, None, colors))
    return found


def fit_table(inputs: Path, out: Path, how: Mapping[str, bool]) -> None:
    data = f"{inputs / 'table.parquet'}#{COLUMNS}"
    flags = [f"--{name}" for name, given in how.items() if given]
    main(["fit", data, str(out), *OPTIONS, *flags], standalone_mode=False)


def killed(inputs: Path, out: Path, number: int) -> None:
    """In a child process."""
    job = kills.Job(fit_table, lambda *_: None, resumable=True)
    with mock.patch.dict(kills.JOBS, {"fit of a table": job}):
        kills.killed("fit of a table", inputs, out, number, False)


def bytes_of(out: Path) -> dict[str, Any]:
    content = kills.content(out)
    assert content is not None
    return dict(content)


@pytest.mark.timeout(300)
def test_a_killed_fit_of_a_table_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    table().to_parquet(tmp_path / "table.parquet", row_group_size=60)
    whole = tmp_path / "whole.zarr"
    fit_table(tmp_path, whole, {})
    labels = zarr.open_group(whole, mode="r")["labels"][:]
    assert (labels[-8:] == -1).all()
    assert len(np.unique(labels[labels >= 0])) == CLUSTERS
    expected = bytes_of(whole)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(kills.PRELOADED)
    exits = []
    for number in (3, 40, 75):
        out = tmp_path / str(number) / "run.zarr"
        out.parent.mkdir()
        process = context.Process(target=killed, args=(tmp_path, out, number))
        process.start()
        process.join()
        exits.append(process.exitcode)
        fit_table(tmp_path, out, {"resume": True})
        assert bytes_of(out) == expected
    assert exits == [-signal.SIGKILL] * 3
