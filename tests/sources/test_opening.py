"""Each input is opened once, whatever works on it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr

from dask_dpmeans import DPMeans, fit, predict
from dask_dpmeans.api.loading import read_run
from dask_dpmeans.cli import main
from dask_dpmeans.sources import OpenedPath, as_source
from dask_dpmeans.sources.safety import checked_store

N = 64


@pytest.fixture
def rows(tmp_path):
    """Paths of rows and of their weights."""
    for name, shape in (("rows.zarr", (N, 2)), ("weights.zarr", (N,))):
        array = zarr.create_array(
            tmp_path / name, shape=shape, chunks=(16, *shape[1:]), dtype=np.float64
        )
        array[:] = np.random.default_rng(0).random(shape)
    return tmp_path / "rows.zarr", tmp_path / "weights.zarr"


@pytest.fixture
def openings(monkeypatch):
    """How often each Zarr array or group of an input was opened, by name."""
    counts, opened = Counter(), checked_store.open_node

    def counted(place):
        counts[Path(place.url).name] += 1
        return opened(place)

    monkeypatch.setattr(checked_store, "open_node", counted)
    return counts


def command(*words):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert stopped.value.code == 0


def test_a_fit_and_a_prediction_open_their_input_once(rows, openings, tmp_path):
    data, weights = rows
    fit(data, tmp_path / "run.zarr", DPMeans(4.0), sample_weight=weights, threads=1)
    assert openings == {"rows.zarr": 1, "weights.zarr": 1}
    openings.clear()
    predict(tmp_path / "run.zarr", data, tmp_path / "labels.zarr", threads=1)
    assert openings == {"rows.zarr": 1}


def test_commands_open_their_input_once(rows, openings, tmp_path):
    data, weights = rows
    command("fit", data, tmp_path / "run.zarr", "--penalty", 4, "--weights", weights)
    assert openings == {"rows.zarr": 1, "weights.zarr": 1}
    for words in (
        ("fit", data, tmp_path / "new.zarr", "--penalty", 4, "--dry-run"),
        ("predict", tmp_path / "run.zarr", data, tmp_path / "labels.zarr"),
        ("penalty", data, "-k", 3),
    ):
        openings.clear()
        command(*words)
        assert openings == {"rows.zarr": 1}, words[0]


def test_a_run_keeps_the_path_of_an_input_that_was_open_already(rows, tmp_path):
    data = str(rows[0])
    opened = OpenedPath(data, zarr.open_array(data, mode="r"))
    fit(opened, tmp_path / "run.zarr", DPMeans(4.0), threads=1)
    kept = read_run(tmp_path / "run.zarr").manifest.sources
    assert kept == {"data": data, "groups": None, "sample_weight": None}
    assert as_source(opened, threads=1).identity == as_source(data, threads=1).identity
