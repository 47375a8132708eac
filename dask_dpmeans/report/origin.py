"""Where the rows of a page come from, and the code that makes its run or path again."""

import inspect
import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dask_dpmeans.figures.data import Model
from dask_dpmeans.flags import flags
from dask_dpmeans.methods.dpmeans.choice import Alternative
from dask_dpmeans.registry import METHODS, spec_of
from dask_dpmeans.selection.commands import sources
from dask_dpmeans.selection.commands import words as words_of
from dask_dpmeans.sources import path_of
from dask_dpmeans.storage.manifest import Manifest
from dask_dpmeans.storage.run_store import Result

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


# Runs


def _given_parameters(model: Model) -> dict[str, Any]:
    return differing_parameters(model.get_params(deep=False), type(model))


def call(result: Result, model: Model) -> str:
    """Return Python code that makes the run again."""
    manifest, name = result.manifest, type(model).__name__
    stored = f"zarr.open_array({(result.store / 'first_centers').shown!r}, mode='r')[:]"
    parameters, imports = [], f"from dask_dpmeans import {name}, fit\n"
    for each, value in _given_parameters(model).items():
        if isinstance(value, np.ndarray):
            imports = f"import zarr\n\n{imports}"
            parameters.append(f"{each}={stored}")
        else:
            parameters.append(f"{each}={value!r}")
    given = [data(manifest), repr(AGAIN), f"{name}({', '.join(parameters)})"]
    if spec_of(model).takes_groups:
        groups = sources(manifest)["groups"]
        given.append(f"groups={'groups' if groups is None else repr(groups)}")
    return f"{imports}\nfit(\n{arguments([*given, *parts(manifest)])})"


def command(result: Result, model: Model) -> str | None:
    """Return the command that makes the run again; None without one, or if an input has no path."""
    return _command(result, model, _given_parameters(model), AGAIN)


def _command(result: Result, model: Model, asked: dict[str, Any], out: str) -> str | None:
    """Return the command that fits with some parameters; None as for `command`."""
    name, reading = METHODS[type(model).__name__].command, words_of(result.manifest)
    paths = sources(result.manifest)
    if name is None or reading is None:
        return None
    if any(isinstance(value, np.ndarray) for value in asked.values()):
        return None
    words = ["dask-dpmeans", name, str(paths["data"]), out, *flags(asked)]
    if spec_of(model).takes_groups:
        if paths["groups"] is None:
            return None
        words += ["--groups", paths["groups"]]
    return shlex.join([*words, *reading])


def fit_alternative(result: Result, model: Model, other: Alternative) -> str:
    """Return the command, else the estimator in Python, that fits an alternative."""
    prices: dict[str, Any] = dict(other.penalties)
    if hasattr(model, "search"):
        prices["search"] = True
    asked = prices | _given_parameters(model) | prices  # these first
    asked.pop("n_clusters", None)  # the penalty has its place
    found = _command(result, model, asked, f"clusters-{other.n_clusters}.zarr")
    if found is not None:
        return found
    given = {name: each for name, each in asked.items() if not isinstance(each, np.ndarray)}
    parameters = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"{type(model).__name__}({parameters})"
