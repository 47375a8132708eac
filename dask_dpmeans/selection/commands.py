"""Command lines: the arguments of a call as options, and the command that follows a result."""

import shlex
from collections.abc import Mapping, Sequence

from dask_dpmeans.selection.penalty import PenaltyPath
from dask_dpmeans.storage.manifest import Manifest

OPTIONS = {
    "random_state": "seed",
    "n_neighbors": "neighbors",
    "n_landmarks": "landmarks",
    "n_components": "components",
    "n_clusters": "clusters",
}
"""Parameters whose option has another name."""
RUN = "run.zarr"
"""Output of the next command."""


def path_request(path: PenaltyPath) -> Manifest:
    """Return the request that a path was found for."""
    request = {"kind": "path", "method": "path", "random_state": path.random_state}
    return Manifest.from_json({**request, **path.asked})


def sources(manifest: Manifest) -> dict[str, str | None]:
    """Return the paths of the rows, groups and weights; None if unknown."""
    return {name: manifest.sources.get(name) for name in ("data", "groups", "sample_weight")}


def flags(parameters: Mapping[str, object]) -> list[str]:
    """Return parameters as options of a command."""
    found = []
    for name, value in parameters.items():
        found.append("--" + OPTIONS.get(name, name).replace("_", "-"))
        if value is not True:
            found.append(str(value))
    return found


def words(manifest: Manifest) -> list[str] | None:
    """Return the options for weights, columns and scale; None if rows or weights have no path."""
    given, found, options = manifest.input, sources(manifest), []
    if found["data"] is None:
        return None
    if given.weighted:
        if found["sample_weight"] is None:
            return None
        options += ["--weights", found["sample_weight"]]
    if given.columns is not None:
        options += ["--columns", ",".join(map(str, given.columns))]
    if given.scaled:
        options += ["--scale", "std"]
    return options


def next_fit(
    data: str,
    penalty: float,
    *,
    search: bool,
    seed: int | None,
    options: Sequence[str],
    run: str = RUN,
) -> str:
    """Return the command that fits rows with a penalty, quoted for a shell."""
    command = ["dask-dpmeans", "fit", data, run, "--penalty", repr(float(penalty))]
    if search:
        command.append("--search")
    if seed is not None:
        command += ["--seed", str(seed)]
    return shlex.join([*command, *options])


def after_path(path: PenaltyPath) -> str | None:
    """Return the command that fits with the penalty that a path proposes.

    If the rows have no path, return Python code.

    Only a path of prices proposes a penalty; otherwise return None.
    """
    if path.penalty is None or not path.search:
        return None
    request = path_request(path)
    metric, options = request.parameters["metric"], words(request)
    plain = metric == "euclidean"
    if options is None:
        also = "" if plain else f", metric={metric!r}"
        return f"DPMeans({path.penalty!r}, search=True{also}, random_state={path.random_state})"
    if not plain:
        options = ["--metric", metric, *options]
    data = str(sources(request)["data"])
    return next_fit(data, path.penalty, search=True, seed=path.random_state, options=options)
