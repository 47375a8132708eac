"""Forged attributes and small arrays of a run give an error of this package, or a result."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from test_odd_calls import ESTIMATORS, ROWS

from dask_dpmeans import (
    CorruptStoreError,
    InputError,
    OnlineDPMeans,
    SplitMergeDPMeans,
    fit,
    load,
    predict,
)
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli.tables import run_table
from dask_dpmeans.report import page
from dask_dpmeans.storage.arrays import CONTENTS, MARKER, read, sign_attributes, write
from dask_dpmeans.storage.location import Location

FOREIGN = [
    None,
    True,
    "x",
    "",
    -1,
    0,
    1,
    7,
    2.5,
    -2.5,
    float("nan"),
    10**30,
    [],
    [0],
    [7],
    [-1, 0],
    ["a"],
    {"a": 1},
]
FEW = int(os.environ.get("DPMEANS_FORGERIES", "1"))
"""Of these in place of each attribute and of each array, others for each method; 19 are all."""
METHODS = [
    name
    for name, (model, _) in ESTIMATORS.items()
    if not isinstance(model, OnlineDPMeans | SplitMergeDPMeans)
]


@pytest.fixture(scope="module", params=METHODS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each method."""
    place = tmp_path_factory.mktemp("forged") / "run.zarr"
    model, data = ESTIMATORS[request.param]
    options = {} if request.param.startswith("Graph") else {"columns": [1, 0]}
    fit(data["X"], place, model, groups=data.get("groups"), **options)
    return place


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where what a manifest says stands in it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield (*path, key)
            yield from leaves(each, (*path, key))


def readers(run: Path, out: Path) -> dict[str, Callable[[], Any]]:
    """All that reads a run."""
    groups = np.zeros(6, np.int64) if (run / "local_groups").exists() else None
    return {
        "load": partial(load, run),
        "show": lambda: run_table(open_run(run)),
        "predict": lambda: predict(run, ROWS, out, groups=groups),
    }


def check(run: Path, out: Path, what: str) -> None:
    """Each reader gives a result, or an error of this package."""
    for name, reader in readers(run, out).items():
        try:
            reader()
        except (CorruptStoreError, InputError):
            continue
        except Exception as error:  # any other class is a failure
            pytest.fail(f"{name} of {what}: {type(error).__name__}: {error}")


@pytest.mark.filterwarnings("ignore")
def test_a_forged_attribute_is_an_error_of_ours_or_a_result(run: Path, tmp_path: Path) -> None:
    root, random = run / "zarr.json", Random(run.parent.name)
    text = root.read_text()
    try:
        manifest = json.loads(text)["attributes"][MARKER]
        for path in leaves(manifest):
            for foreign in random.sample([*FOREIGN, KeyError], FEW):
                forged = json.loads(text)
                inside = forged["attributes"][MARKER]
                for key in path[:-1]:
                    inside = inside[key]
                if foreign is KeyError:
                    del inside[path[-1]]
                else:
                    inside[path[-1]] = foreign
                forged["attributes"] = sign_attributes(forged["attributes"])
                root.write_text(json.dumps(forged))
                check(run, tmp_path / "out.zarr", f"{'.'.join(path)}={foreign!r}")
                if (tmp_path / "out.zarr").exists():
                    (tmp_path / "out.zarr").rename(
                        tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr"
                    )
    finally:
        root.write_text(text)


def others(values: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Arrays in place of one: of other shapes and types, and with numbers that it cannot hold."""
    yield values[:0]
    yield np.concatenate([values, values])
    yield values.reshape(-1)
    yield values.astype(np.int16 if values.dtype.kind == "f" else np.float64)
    if values.ndim == 2:
        yield values[:, :0]
        yield np.concatenate([values, values], axis=1)
    if values.size:
        for odd in (-1, 10**6) if values.dtype.kind == "i" else (np.nan, np.inf, -1.0, 0.0):
            yield np.full_like(values, odd)


@pytest.mark.filterwarnings("ignore")
def test_a_forged_array_is_an_error_of_ours_or_a_result(run: Path, tmp_path: Path) -> None:
    random = Random(run.parent.name)
    names = json.loads((run / "zarr.json").read_text())["attributes"][MARKER]["arrays"]
    for name in [*names, "objective", "n_clusters", "seconds"]:
        place = Location.at(run / name)
        text = (run / "zarr.json").read_text()
        root = json.loads(text)
        values, attributes = read(place, root["attributes"][CONTENTS][name])
        try:
            choices = list(others(values))
            for number, other in enumerate(random.sample(choices, min(2 * FEW, len(choices)))):
                shutil.rmtree(run / name)  # chunks of other dimensions have other names
                root["attributes"][CONTENTS][name] = write(place, other, attributes=attributes)
                root["attributes"] = sign_attributes(root["attributes"])
                (run / "zarr.json").write_text(json.dumps(root))
                check(
                    run,
                    tmp_path / f"{name}-{number}.zarr",
                    f"{name} of {other.dtype}, {other.shape}",
                )
        finally:
            shutil.rmtree(run / name)
            write(place, values, attributes=attributes)
            (run / "zarr.json").write_text(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("input", "columns"), [7, 0]),
        (("input", "columns"), [-1, 0]),
        (("input", "scaled"), True),
        (("input", "shape"), [6, 0]),
        (("input", "n_groups"), -1),
        (("parameters", "penalty"), 0.0),
        (("parameters", "tol"), "x"),
        (("parameters", "max_iter"), 0),
        (("parameters", "metric"), ["x"]),
        (("column_names",), ["a"]),
        (("sources",), 3),
        (("random_state",), -1),
    ],
)
def test_the_error_names_the_attribute(path: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    model, data = ESTIMATORS["DPMeans"]
    fit(data["X"], tmp_path / "run.zarr", model, columns=[1, 0])
    root = tmp_path / "run.zarr" / "zarr.json"
    forged = json.loads(root.read_text())
    inside = forged["attributes"][MARKER]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    forged["attributes"] = sign_attributes(forged["attributes"])
    root.write_text(json.dumps(forged))
    named = path[-1] if path[-1] != "scaled" else "arrays"
    found = readers(tmp_path / "run.zarr", tmp_path / "out.zarr") | {
        "report": partial(page, tmp_path / "run.zarr")
    }
    for reader in found.values():
        with pytest.raises(CorruptStoreError, match=named):
            reader()
