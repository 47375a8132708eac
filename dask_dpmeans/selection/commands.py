"""Command lines: the arguments of a call as options, and the command that follows a result."""

import shlex
from collections.abc import Sequence

from dask_dpmeans.flags import flags
from dask_dpmeans.selection.penalty import PenaltyPath
from dask_dpmeans.storage.manifest import Manifest

COMMANDED = {"metric", "divergence", "missing", "discount", "outlier_penalty"}
"""Parameters of `DPMeans` that a path may have and that are options of the command fit, ..."""
FIT_PARAMETERS = (*sorted(COMMANDED), "smoothing", "balance_columns")
"""... and all that a path may have."""
RUN = "run.zarr"
"""Output of the next command."""


def path_request(path: PenaltyPath) -> Manifest:
    """Return the request that a path was found for."""
    request = {"kind": "path", "method": "path", "random_state": path.random_state}
    return Manifest.from_json({**request, **path.asked})


def sources(manifest: Manifest) -> dict[str, str | None]:
    """Return the paths of the rows, groups and weights; None if unknown."""
    return {name: manifest.sources.get(name) for name in ("data", "groups", "sample_weight")}


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
    chosen, options = request.parameters, words(request)
    given = {name: chosen[name] for name in FIT_PARAMETERS if name in chosen}
    if given["metric"] == "euclidean":
        del given["metric"]
    if options is None or not given.keys() <= COMMANDED:
        also = "".join(f", {name}={value!r}" for name, value in given.items())
        return f"DPMeans({path.penalty!r}, search=True{also}, random_state={path.random_state})"
    options = [*flags(given), *options]
    data = str(sources(request)["data"])
    return next_fit(data, path.penalty, search=True, seed=path.random_state, options=options)
