"""Each command reads a run once: no small array is read twice."""

from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from dask_dpmeans import DPMeans, HDPMeans, SpectralDPMeans, fit
from dask_dpmeans.cli import main
from dask_dpmeans.storage.output import FinishedOutput

RUNS = {
    "dpmeans": (DPMeans(9.0, random_state=0), {}),
    "hdp": (HDPMeans(9.0, 9.0, random_state=0), {"groups": np.arange(100) % 3}),
    "spectral": (SpectralDPMeans(50.0, random_state=0), {}),
}
COMMANDS = {
    "show": ["show", "run.zarr"],
    "show --json": ["show", "run.zarr", "--json"],
    "report": ["report", "run.zarr", "page.html", "--threads", "1"],
    "report --no-data": ["report", "run.zarr", "short.html", "--no-data"],
    "export": ["export", "run.zarr", "model.json"],
    "predict": ["predict", "run.zarr", "rows.npy", "out.zarr", "--threads", "1"],
    "tree": ["tree", "run.zarr"],
    "bound": ["bound", "run.zarr", "--threads", "1"],
}


@pytest.fixture(scope="module", params=RUNS)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    rows = (
        np.concatenate([np.zeros((40, 2)), np.full((60, 2), 9.0)])
        + np.arange(200.0).reshape(100, 2) % 3
    )
    np.save(folder / "rows.npy", rows)
    model, options = RUNS[request.param]
    if "groups" in options:
        np.save(folder / "groups.npy", options["groups"])
        options = {"groups": folder / "groups.npy"}
    fit(folder / "rows.npy", folder / "run.zarr", model, **options)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_no_array_of_a_run_twice(folder, name, monkeypatch):
    command = COMMANDS[name]
    if name == "predict" and "hdp" in folder.name:
        command = [*command, "--groups", "groups.npy"]
    counts, read_all = Counter(), FinishedOutput.read_all

    def counted(found, names):
        names = list(names)
        counts.update(names)
        return read_all(found, names)

    monkeypatch.chdir(folder)
    monkeypatch.setattr(FinishedOutput, "read_all", counted)
    done = CliRunner().invoke(main, command)
    refused = name in ("export", "bound") and not folder.name.startswith(
        "dpmeans"
    )  # not nearest centers of rows
    assert done.exit_code == (2 if refused else 0), done.output
    assert counts
    assert {name: count for name, count in counts.items() if count > 1} == {}
