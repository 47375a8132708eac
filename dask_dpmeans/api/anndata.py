"""Fits of the cells of an AnnData object, file or store."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import zarr
from sklearn.base import clone
from sklearn.utils import get_tags

from dask_dpmeans import checks
from dask_dpmeans.api.description import versions
from dask_dpmeans.api.fitting import FitOptions, fit
from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.graph_cut import GraphCutDPMeans
from dask_dpmeans.registry import spec_of
from dask_dpmeans.sources import open_h5ad, opened_h5ad
from dask_dpmeans.storage.anndata import CellStore
from dask_dpmeans.storage.location import AnyPlace, Location

PARTS = ("obsm", "layers", "obsp")
"""Mappings of AnnData with arrays over the cells."""
REP, KEY = "X_pca", "dpmeans"
"""Defaults: the representation that is clustered, and the name of the results."""
WRITER = "dask_dpmeans"
"""Beginning of the version in `uns`, by which earlier results are known."""


@dataclass(frozen=True)
class Names:
    """Names of what an AnnData holds for each cell."""

    parts: Mapping[str, list[str]]
    """Names of the arrays of each of `PARTS`."""
    has_x: bool
    columns: list[str]
    """Columns of `obs`."""
    index: str | None = None
    """Name in the store of the names of the cells."""

    def array(self, rep: str | None, obsp: str | None) -> str:
        """Return where the array of a representation or of a graph is, such as ``obsm/X_pca``."""
        if obsp is not None:
            if rep is not None:
                raise InputError(f"rep={rep!r} and obsp={obsp!r} cannot go together: give one")
            if obsp not in self.parts["obsp"]:
                raise InputError(f"obsp has no {obsp!r}: {_there(self.parts['obsp'])}")
            return f"obsp/{obsp}"
        rep = REP if rep is None else rep
        if rep == "X" and self.has_x:
            return rep
        part, slash, name = rep.partition("/")
        if slash and part in ("obsm", "layers") and name in self.parts[part]:
            return rep
        homes = [part for part in ("obsm", "layers") if rep in self.parts[part]]
        if len(homes) > 1:
            raise InputError(
                f"rep={rep!r} is in obsm and in layers: give 'obsm/{rep}' or 'layers/{rep}'"
            )
        if not homes:
            there = ["X"] * self.has_x
            there += [f"{part}/{name}" for part in ("obsm", "layers") for name in self.parts[part]]
            way = f"; choose one, such as rep={there[0]!r}" if there else ""
            raise InputError(f"adata has no representation {rep!r}: {_there(there)}{way}")
        return f"{homes[0]}/{rep}"

    def check_column(self, name: str, argument: str) -> None:
        """Raise `InputError` unless `obs` has a column."""
        if name not in self.columns:
            raise InputError(f"{argument}: obs has no column {name!r}: {_there(self.columns)}")


def _there(names: Iterable[str]) -> str:
    shown = ", ".join(names)
    return f"it has {shown}" if shown else "it has none"


def fit_anndata(
    adata: Any,
    method: Any = None,
    *,
    rep: str | None = None,
    obsp: str | None = None,
    key_added: str = KEY,
    sample_weight: Any = None,
    groups: Any = None,
    run: AnyPlace | None = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[FitOptions],
) -> Any:
    """Cluster the cells of an AnnData, and write the clusters into it.

    ``obs[key_added]`` becomes a categorical with the categories "0", "1", ...; cells of label -1
    (noise, outliers) are missing values there.  So its codes are the labels of the fit.
    ``uns[key_added]`` holds the parameters, penalty, centers and weights of the clusters, and why
    the penalty was chosen.

    Parameters
    ----------
    adata : AnnData, or path or URL of a ``.zarr`` store or an ``.h5ad`` file
        An object, whole, backed, lazy or a view, gets the results in its `obs` and `uns`.  So does
        a ``.zarr`` store (version 2 or 3 of Zarr), in place: nothing else in it is written.  An
        ``.h5ad`` file is only read: the labels are in the run.
    method : estimator, default `DPMeans`, or `GraphCutDPMeans` with `obsp`
        Its parameters are used.
    rep : str, default "X_pca"
        The representation that is clustered: the name of an array of `obsm` or `layers`, "X", or
        such as "layers/counts" if both have that name.
    obsp : str, optional
        The graph that is clustered in its place, such as "connectivities".
    key_added : str, default "dpmeans"
        Name of the results.  Results of an earlier fit are replaced once the new ones are written;
        a kill in the moment of replacing leaves a store without the column.
    sample_weight : str or (n,) array, optional
        Weights of the cells; a text is a column of `obs`.
    groups : str or (n,) array, optional
        The data set of each cell, for `HDPMeans`; a text is a column of `obs`.
    run : path or URL, optional
        The run store to write.  By default, that is ``cells.dpmeans.zarr`` beside ``cells.zarr``,
        ``cells.h5ad.dpmeans.zarr`` beside ``cells.h5ad``, and none for an object.
    resume : bool
        Go on with the run that is there.
    force : bool
        Remove the run that is there, and replace a column of `obs` that is not of an earlier fit.
    **options
        More options of `fit`, for stores and files.

    Returns
    -------
    The fitted estimator.

    Raises
    ------
    InputError
        There is no such representation, column or graph; the error lists those that there are.
    """
    for name, text in (("rep", rep), ("obsp", obsp), ("key_added", key_added)):
        if text is not None and not isinstance(text, str):
            raise InputError(f"{name} must be a text, got {describe_value(text)}")
    place = None
    if isinstance(adata, str | os.PathLike | Location):
        place = Location.at(adata, options.get("storage_options"))
    cells = _OpenedCells(adata) if place is None else stored_cells(place)
    where = cells.names.array(rep, obsp)
    method = checked_method(method, obsp)
    given = {
        name: cells.column(value, name) if isinstance(value, str) else value
        for name, value in (("sample_weight", sample_weight), ("groups", groups))
    }
    cells.check_key(key_added, force)
    if place is not None and run is None:
        run = default_run(place, key_added)
    if run is None:
        _check_without_run([*options, *["resume"] * resume], method)
        beside = {name: value for name, value in given.items() if value is not None}
        model = clone(method).fit(cells.rows(where), **beside)
    else:
        model = fit(cells.rows(where), run, method, **given, resume=resume, force=force, **options)
    cells.write(key_added, model, where)
    return model


def _check_without_run(names: list[str], method: Any) -> None:
    """Refuse options of a fit with a run, and parameters of the estimator."""
    own = sorted(method.get_params().keys() & set(names), key=names.index)
    if own:
        arguments = ", ".join(f"{name}=..." for name in own)
        raise InputError(
            f"{', '.join(own)} belongs to the estimator: fit_anndata(adata, "
            f"{type(method).__name__}({arguments}))"
        )
    if names:
        raise InputError(
            f"{', '.join(names)}: these are for fits with a run; give run=, or leave them out"
        )


def checked_method(method: Any, obsp: str | None) -> Any:
    """Return the estimator for rows, or for a graph with `obsp`; None is the usual one."""
    if method is None:
        return DPMeans() if obsp is None else GraphCutDPMeans()
    spec_of(method)  # refuses what is no estimator with a run store
    pairwise = get_tags(method).input_tags.pairwise
    if pairwise and obsp is None:
        raise InputError(
            f"{type(method).__name__} clusters the nodes of a graph: give obsp, such as "
            "obsp='connectivities', in place of rep"
        )
    if obsp is not None and not pairwise:
        raise InputError(
            f"obsp={obsp!r} is a graph, which {type(method).__name__} does not cluster: use "
            "GraphCutDPMeans, or give rep"
        )
    return method


def default_run(place: Location, key: str) -> Location:
    """Return the run store beside a store or file.

    >>> default_run(Location("/data/cells.zarr"), "dpmeans").url
    '/data/cells.dpmeans.zarr'
    >>> default_run(Location("/data/cells.h5ad"), "dpmeans").url
    '/data/cells.h5ad.dpmeans.zarr'
    """
    url = place.url.rstrip("/").removesuffix(".zarr")
    return Location(f"{url}.{key}.zarr", place.options)


@dataclass(frozen=True)
class _OpenedCells:
    """An AnnData object."""

    adata: Any

    def __post_init__(self) -> None:
        if not all(hasattr(self.adata, name) for name in ("obs", "uns", *PARTS)):
            shown = checks.describe_value(self.adata)
            raise InputError(f"adata must be an AnnData, or the path of one, got {shown}")

    @property
    def names(self) -> Names:
        """The names of what it holds."""
        parts = {part: list(getattr(self.adata, part).keys()) for part in PARTS}
        return Names(parts, self.adata.X is not None, list(self.adata.obs.columns))

    def rows(self, where: str) -> Any:
        """Return an array of the cells."""
        part, _, name = where.partition("/")
        if name:
            return getattr(self.adata, part)[name]
        if self.adata.isbacked and not self.adata.is_view:
            place = Location.at(f"{self.adata.filename}/X")
            return open_h5ad(place, "X")
        return self.adata.X

    def column(self, name: str, argument: str) -> Any:
        """Return a column of `obs`, (n,): its codes for groups."""
        self.names.check_column(name, argument)
        column = self.adata.obs[name]
        codes = getattr(column, "cat", None)
        if argument == "groups" and codes is not None:
            return codes.codes.to_numpy()
        return np.asarray(column)

    def check_key(self, key: str, force: bool) -> None:
        """Refuse a name whose column is not of an earlier fit."""
        entry = self.adata.uns.get(key)
        ours = isinstance(entry, Mapping) and _is_ours(entry.get("version"))
        _check_key(key, self.names, ours, force)

    def write(self, key: str, model: Any, where: str) -> None:
        """Set the column and the entry of `uns`."""
        from pandas import Categorical, Index  # noqa: PLC0415 (optional, and there if anndata is)

        # Objects: anndata 0.12 cannot write the texts of pandas 3.
        names = Index(category_names(model), dtype=object)
        self.adata.obs[key] = Categorical.from_codes(np.asarray(model.labels_), names)
        self.adata.uns[key] = entry_of(model, where)


@dataclass(frozen=True)
class FileCells:
    """An ``.h5ad`` file, or what it has in common with a store."""

    place: Location
    names: Names

    def rows(self, where: str) -> Any:
        """Return the path of an array of the cells."""
        return self.place / where

    def column(self, name: str, argument: str) -> Any:
        """Return the path of a column of `obs`."""
        self.names.check_column(name, argument)
        return self.place / "obs" / name

    def check_key(self, key: str, force: bool) -> None:
        """Do nothing: nothing is written."""

    def write(self, key: str, model: Any, where: str) -> None:
        """Do nothing: the run has the labels."""


@dataclass(frozen=True)
class StoredCells(FileCells):
    """A Zarr store of AnnData."""

    root: zarr.Group

    def column(self, name: str, argument: str) -> Any:
        """Return the path of a column of `obs`, or of its codes."""
        self.names.check_column(name, argument)
        path = self.place / "obs" / name
        if argument == "groups" and f"obs/{name}/codes" in self.root:
            return path / "codes"
        return path

    def check_key(self, key: str, force: bool) -> None:
        """Refuse a name whose column is not of an earlier fit, and a store that is only read."""
        if self.place.read_only:
            raise InputError(
                f"{self.place.shown} cannot be written: give a store of a disk or bucket"
            )
        entry = f"uns/{key}/version"
        version: Any = self.root.get(entry)
        ours = isinstance(version, zarr.Array) and _is_ours(version[()])
        _check_key(key, self.names, ours, force)

    def write(self, key: str, model: Any, where: str) -> None:
        """Write the column and the entry of `uns`."""
        store = CellStore(self.place, self.root.metadata.zarr_format)
        store.write(key, model.labels_, category_names(model), entry_of(model, where))


def _is_ours(version: object) -> bool:
    return version is not None and str(version).startswith(WRITER)


def _check_key(key: object, names: Names, ours: bool, force: bool) -> None:
    usable = isinstance(key, str) and key and "/" not in key and not key.startswith(("_", "."))
    if not usable or key == names.index:
        shown = checks.describe_value(key)
        raise InputError(f"key_added must be a name of a column without slashes, got {shown}")
    if key in names.columns and not (ours or force):
        raise InputError(
            f"obs has a column {key!r} that is not of an earlier fit: choose another key_added, or "
            "replace it with force=True"
        )


def stored_cells(place: Location) -> Any:
    """Open a Zarr store or an ``.h5ad`` file of AnnData."""
    if place.url.endswith(".h5ad") and not place.is_folder():
        with opened_h5ad(place.url, "adata") as file:
            return FileCells(place, _stored_names(file))
    try:
        root = zarr.open_group(place.store(), mode="r", use_consolidated=False)
    except InputError:
        raise
    except Exception as error:  # whatever is wrong with the store or its metadata
        raise InputError(
            f"adata: there is no Zarr store or .h5ad file of AnnData at {place.shown}: {error}"
        ) from error
    if root.attrs.get("encoding-type") != "anndata" or "obs" not in root:
        raise InputError(
            f"adata: {place.shown} is a Zarr group, but no AnnData: its attribute encoding-type is "
            f"{root.attrs.get('encoding-type')!r}, not 'anndata'"
        )
    return StoredCells(place, _stored_names(root), root)


def _stored_names(root: Any) -> Names:
    obs = root["obs"].attrs
    parts = {part: sorted(root[part].keys()) if part in root else [] for part in PARTS}
    columns = [str(name) for name in obs.get("column-order", ())]
    return Names(parts, "X" in root, columns, str(obs.get("_index", "")))


def category_names(model: Any) -> list[str]:
    """Return the names of the clusters as categories."""
    return [str(number) for number in range(model.n_clusters_)]


def entry_of(model: Any, where: str) -> dict[str, Any]:
    """Return what `uns` holds of a fit: numbers, texts, arrays, and mappings of these."""
    choice = getattr(model, "choice_", None)
    found = {
        "version": f"{WRITER} {versions()['dask-dpmeans']}",
        "method": type(model).__name__,
        "rep": where,
        "params": model.get_params(deep=False) | {"random_state": model.random_state_},
        "n_clusters": model.n_clusters_,
        "inertia": model.inertia_,
        "objective": model.objective_,
        "penalty": getattr(model, "penalty_", None),
        "cluster_centers": getattr(model, "cluster_centers_", None),
        "cluster_weights": model.cluster_weights_,
    }
    if choice is not None:
        as_json = json.dumps(choice.as_json())
        found["choice"] = {"reason": choice.reason, "json": as_json}
    return plain_mapping(found)


def plain_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as AnnData can write it.

    Values that are None are left out; what is no number, text or array is JSON.
    """
    return {str(name): _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_mapping(value)
    if isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, Location | os.PathLike):
        return Location.at(value).shown
    try:
        array = np.array(value)
    except (TypeError, ValueError):
        return json.dumps(value, default=str)
    return array if array.dtype.kind in "biufU" else json.dumps(value, default=str)
