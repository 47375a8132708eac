"""Where the rows of a run or a path came from, and how a call and a command name them; from its manifest."""

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dask_dpmeans.selection.commands import sources
from dask_dpmeans.sources import path_of
from dask_dpmeans.storage.manifest import Manifest

AGAIN = "again.zarr"
"""Where the calls and commands of a page write."""


def located(manifest: Manifest) -> str | None:
    """Where the rows are, if they still are at a path of this machine; no URL is asked for."""
    found = sources(manifest)["data"]
    return found if found and "://" not in found and os.path.exists(path_of(found)) else None


def rows(manifest: Manifest, row: str = "row") -> dict[str, str]:
    """Facts about the input by name; `row` is what a row is called."""
    given = manifest.input
    paths = {name.replace("_", " "): path for name, path in sources(manifest).items() if path is not None}
    kind = {
        "type": np.dtype(given.dtype).name,
        "stored with checksums": "yes" if manifest.checksummed else "no",
    }
    if row == "node":
        return paths | {"nodes": f"{given.shape[0]:,}"} | kind
    columns = given.columns
    found = {
        "rows x columns": f"{given.shape[0]:,} x {given.shape[1]:,}",
        "columns used": "all" if columns is None else ", ".join(map(str, columns)),
        "columns scaled by deviation": "yes" if given.scaled else "no",
        "weights": "yes" if given.weighted else "no",
    }
    if given.n_groups:
        found["data sets"] = f"{given.n_groups:,}"
    return paths | found | kind


def warnings(manifest: Manifest) -> list[str]:
    """What a reader should know of the input."""
    if manifest.checksummed:
        return []
    return ["The input is stored without checksums: a flipped bit in it would not have been seen."]


def unknown(manifest: Manifest) -> str | None:
    """What X is in a call, where the rows have no path."""
    return "X are the rows: they were in memory" if sources(manifest)["data"] is None else None


def data(manifest: Manifest) -> str:
    """The rows, as a call names them."""
    found = sources(manifest)["data"]
    return "X" if found is None else repr(found)


def differing(given: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Parameters of a function, or of a class, that differ from their defaults, or have none."""
    usual = inspect.signature(function).parameters
    return {
        name: value for name, value in given.items() if isinstance(value, np.ndarray) or value != usual[name].default
    }


def parts(manifest: Manifest) -> list[str]:
    """The arguments of a call that say how rows are read."""
    given, weights, found = manifest.input, sources(manifest)["sample_weight"], []
    if given.weighted:
        found.append(f"sample_weight={'weights' if weights is None else repr(weights)}")
    if given.columns is not None:
        found.append(f"columns={list(given.columns)}")
    if given.scaled:
        found.append("scale='std'")
    return found
