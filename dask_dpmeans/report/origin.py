"""The input of a run or a path, from its manifest: its location and its names in calls."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dask_dpmeans.selection.commands import sources
from dask_dpmeans.sources import path_of
from dask_dpmeans.storage.manifest import Manifest

AGAIN = "again.zarr"
"""Output of the calls and commands of a page."""


def locate(manifest: Manifest) -> str | None:
    """Return the path of the rows, if they are still there; URLs are not asked."""
    found = sources(manifest)["data"]
    if found and "://" not in found and os.path.exists(path_of(found)):
        return found
    return None


def absent_rows(manifest: Manifest) -> list[str]:
    """Return a note that the rows were not found at their path, with the way out; none if they were."""
    found = sources(manifest)["data"]
    if found is None or locate(manifest) is not None:
        return []
    where = f"nothing is at {found}"
    if "://" in found:
        where = f"{found} is a URL, which is not read unasked"
    return [f"The rows are not shown: {where}. Give their path with --data, or data= in Python."]


def rows(manifest: Manifest, row: str = "row") -> dict[str, str]:
    """Return facts about the input, by name; `row` is the word for a row."""
    given = manifest.input
    facts = {
        name.replace("_", " "): path for name, path in sources(manifest).items() if path is not None
    }
    n_rows, n_columns = given.shape
    if row == "node":
        facts["nodes"] = f"{n_rows:,}"
    else:
        facts["rows x columns"] = f"{n_rows:,} x {n_columns:,}"
        facts["columns used"] = ", ".join(map(str, given.columns or ["all"]))
        facts["columns divided by their deviation"] = _yes_or_no(given.scaled)
        facts["weights"] = _yes_or_no(given.weighted)
        if given.n_groups:
            facts["data sets"] = f"{given.n_groups:,}"
    facts["type"] = np.dtype(given.dtype).name
    facts["stored with checksums"] = _yes_or_no(manifest.checksummed)
    return facts


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def warnings(manifest: Manifest) -> list[str]:
    """Return warnings about the input."""
    if manifest.checksummed:
        return []
    return ["The input is stored without checksums: a flipped bit in it would not be found."]


def explain_unknown(manifest: Manifest) -> str | None:
    """Return an explanation of X in a call, if the rows have no path."""
    if sources(manifest)["data"] is not None:
        return None
    return "X are the rows: they were in memory"


def data(manifest: Manifest) -> str:
    """Return the rows as an argument of a call."""
    found = sources(manifest)["data"]
    return "X" if found is None else repr(found)


def differing_parameters(given: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that differ from the defaults of a function or class."""
    usual = inspect.signature(function).parameters
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, np.ndarray) or value != usual[name].default
    }


def parts(manifest: Manifest) -> list[str]:
    """Return the arguments of a call for weights, columns and scale."""
    given, weights, found = manifest.input, sources(manifest)["sample_weight"], []
    if given.weighted:
        found.append(f"sample_weight={'weights' if weights is None else repr(weights)}")
    if given.columns is not None:
        found.append(f"columns={list(given.columns)}")
    if given.scaled:
        found.append("scale='std'")
    return found


def arguments(given: list[str]) -> str:
    """Return the arguments of a call, one a line."""
    return "".join(f"    {each},\n" for each in given)
