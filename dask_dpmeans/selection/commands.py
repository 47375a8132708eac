"""What was asked, as words of a command, and the command that goes on from what was found."""

import shlex
from collections.abc import Sequence
from typing import Any

from dask_dpmeans.selection.penalty import PenaltyPath
from dask_dpmeans.storage.manifest import Manifest

OPTIONS = {"random_state": "seed", "n_neighbors": "neighbors", "n_landmarks": "landmarks", "n_components": "components"}
"""Parameters that the command line calls something else."""
RUN = "run.zarr"
"""Where the next command writes."""


def path_request(path: PenaltyPath) -> Manifest:
    """Return the request that a path was found for."""
    return Manifest.from_json({"kind": "path", "method": "path", "random_state": path.random_state, **path.asked})


def sources(manifest: Manifest) -> dict[str, str | None]:
    """Return the paths of the rows, of their groups and weights; None for unknown ones."""
    return {name: manifest.sources.get(name) for name in ("data", "groups", "sample_weight")}


def flags(asked: dict[str, Any]) -> list[str]:
    """Parameters as a command has them."""
    found = []
    for name, value in asked.items():
        flag = "--" + OPTIONS.get(name, name).replace("_", "-")
        found += [flag] if value is True else [flag, str(value)]
    return found


def words(manifest: Manifest) -> list[str] | None:
    """The options of a command that do; None where rows or weights have no path."""
    given, found = manifest.input, sources(manifest)
    if found["data"] is None or (given.weighted and found["sample_weight"] is None):
        return None
    options = []
    if given.weighted:
        options += ["--weights", str(found["sample_weight"])]
    if given.columns is not None:
        options += ["--columns", ",".join(map(str, given.columns))]
    if given.scaled:
        options += ["--scale", "std"]
    return options


def next_fit(
    data: str, penalty: float, *, search: bool, seed: int | None, options: Sequence[str], run: str = RUN
) -> str:
    """Return the command that fits rows with a penalty that was found, quoted for a shell."""
    how = ["--search"] * search + ([] if seed is None else ["--seed", str(seed)])
    return shlex.join(["dask-dpmeans", "fit", data, run, "--penalty", repr(float(penalty)), *how, *options])


def after_path(path: PenaltyPath) -> str | None:
    """Return what fits with the penalty that a path of prices proposes: a command, or Python for rows without a path.

    None where the path proposes none.
    """
    if path.penalty is None or not path.search:
        return None
    request = path_request(path)
    metric, options = request.parameters["metric"], words(request)
    if options is None:
        also = "" if metric == "euclidean" else f", metric={metric!r}"
        return f"DPMeans({path.penalty!r}, search=True{also}, random_state={path.random_state})"
    options = ([] if metric == "euclidean" else ["--metric", metric]) + options
    data = str(sources(request)["data"])
    return next_fit(data, path.penalty, search=True, seed=path.random_state, options=options)
