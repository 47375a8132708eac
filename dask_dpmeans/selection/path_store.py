"""Paths of penalties as Zarr groups."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.selection.path import PathOptions, PenaltyPath, find_path, warn_if_crowded
from dask_dpmeans.selection.trial_fits import ENDS, FIGURES, PATH_ARRAYS, locked_checkpoint
from dask_dpmeans.storage.location import AnyPlace, Location
from dask_dpmeans.storage.manifest import FORMAT
from dask_dpmeans.storage.output import NewArrays, new_output, open_output

ATTRIBUTES = ("search", "full", "rows_used", "crowded", "random_state", "asked")
"""Fields of a `PenaltyPath` that are stored as attributes."""


def stored_path(
    X: ArrayLike | AnyPlace,
    penalties: ArrayLike | None,
    out: AnyPlace,
    *,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[PathOptions],
) -> PenaltyPath:
    """Find a path and write it to `out`, as one job whose checkpoint is `out` too.

    Parameters
    ----------
    X, penalties, **options
        As for `penalty_path`.
    out : path or URL of a new group
    resume : bool, continue with the path that was begun there
    force : bool, remove a path that is there

    Returns
    -------
    PenaltyPath
    """
    inputs = [X, options.get("sample_weight")]
    place, force = Location.at(out), checks.switch("force", force)
    with locked_checkpoint(place, "path", inputs, resume=resume, force=force) as kept:
        assert kept is not None
        path = find_path(kept, X, penalties, options)
        new = NewArrays(kept.store)
        _write_arrays(new, path)
        kept.lock.check()
        kept.store.finish_with(new, {"format": FORMAT, "kind": "path", **_attributes(path)})
    warn_if_crowded(path)
    return path


def write_path(
    path: PenaltyPath,
    out: AnyPlace,
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a path as a Zarr group.

    The arrays are ``penalty``, ``n_clusters``, ``inertia``, ``objective`` and, if known,
    ``stability`` over the penalties; ``cluster_centers`` (center, feature), with the centers of all
    penalties one after the other; and ``interval_clusters``, ``interval_low`` and ``interval_high``
    over the intervals.  The attributes have the rest.

    Parameters
    ----------
    path : PenaltyPath as `penalty_path` returns it
    out : path or URL of a new group
    force : bool, remove a path that is there
    storage_options : mapping, optional, options of fsspec for a URL

    Raises
    ------
    InputError
        Something else is there.
    """
    checks.instance("path", path, PenaltyPath, "penalty_path")
    with new_output(
        out, "path", _attributes(path), PATH_ARRAYS, force=force, storage_options=storage_options
    ) as new:
        _write_arrays(new, path)


def _attributes(path: PenaltyPath) -> dict[str, Any]:
    attributes: dict[str, Any] = {name: getattr(path, name) for name in (*ATTRIBUTES, "longest")}
    return attributes | {"stability": path.stability is not None}


def _write_arrays(new: NewArrays, path: PenaltyPath) -> None:
    figures = (path.penalties, path.n_clusters, path.inertias, path.objectives, path.stability)
    for name, values in zip((*FIGURES, "stability"), figures, strict=True):
        if values is not None:
            new.write(name, values, ("penalty",))
    new.write("cluster_centers", np.concatenate(path.centers), ("center", "feature"))
    intervals = np.array(path.intervals, np.float64).reshape(-1, 3).T
    for name, values, dtype in zip(ENDS, intervals, (np.int64, float, float), strict=True):
        new.write(name, values.astype(dtype), ("interval",))


def read_path(path: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> PenaltyPath:
    """Read a path that `write_path` wrote, to the bit.

    Parameters
    ----------
    path : path or URL of the group
    storage_options : mapping, optional, options of fsspec for a URL

    Returns
    -------
    PenaltyPath

    Raises
    ------
    InputError
        There is no finished path.
    CorruptStoreError
        An array is missing or does not match its checksum.
    """
    with open_output(path, "path", storage_options) as found:
        names = (*FIGURES, "stability") if found.attributes["stability"] else FIGURES
        penalties, numbers, inertias, objectives, *stability = found.read_equally_long(names)
        [centers] = found.read_equally_long(["cluster_centers"], int(numbers.sum()))
        ends = (values.tolist() for values in found.read_equally_long(ENDS))
        return PenaltyPath(
            penalties=penalties,
            n_clusters=numbers,
            inertias=inertias,
            objectives=objectives,
            centers=tuple(np.split(centers, np.cumsum(numbers)[:-1])),
            intervals=tuple(map(Interval, *ends)),
            stability=stability[0] if stability else None,
            **{name: found.attributes[name] for name in ATTRIBUTES},
        )
