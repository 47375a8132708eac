"""Cubes of xarray as rows, and answers for rows as arrays on the samples' grid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources import grids
from dask_dpmeans.sources.names import Names
from dask_dpmeans.sources.refusals import PACKED
from dask_dpmeans.sources.row_array import Raw

try:
    import xarray
except ModuleNotFoundError as error:
    if error.name != "xarray":
        raise
    missing = "cubes need xarray, which is missing"
    raise ImportError(f'{missing}: pip install "dask-dpmeans[xarray]"', name="xarray") from error


@dataclass(frozen=True, eq=False)
class Cube:
    """A cube as rows.

    A sample with NaN in one of its features is no row, unless these are missing values.
    """

    grid: grids.Grid
    coords: Any
    """Coordinates of xarray, of the cube."""
    samples: Any
    """(n_samples, d), all samples; NumPy or Dask array."""
    rows: Any
    """(n, d), those that are rows; chunk sizes of a Dask array may be unknown."""
    present: Raw | None
    """(n_samples,) bool, the samples that are rows; None if all are, or if they are lazy."""
    added: Names = ()
    """Samples' dimensions of the fit that the cube has no more: a place alone, of a grid."""

    @property
    def lazy(self) -> bool:
        """Whether the cube is a Dask array."""
        return isinstance(self.samples, da.Array)

    @property
    def rows_to_answer(self) -> Any:
        """The rows in (n, d) that an estimator answers; one that `place` drops if there are none."""
        if self.lazy or len(self.rows):
            return self.rows
        return np.ones((1, self.rows.shape[1]), self.rows.dtype)

    def beside(self, values: Any, name: str) -> Any:
        """Return one value for each row, (n,), of an array that broadcasts against the samples.

        Parameters
        ----------
        values : `xarray.DataArray`, whose coordinates must be as in the cube; or "latitude", the
            cosine of the latitude; None for None
        name : name of the argument for errors
        """
        if values is None:
            return None
        if name == "sample_weight" and grids.is_latitude(values):
            latitude = self.coords[grids.latitude_of(self.grid.sample_coords).name]
            values = latitude.copy(data=grids.cosines(latitude.values, str(latitude.name)))
        if not isinstance(values, xarray.DataArray):
            way = f" or {grids.LATITUDE!r}" if name == "sample_weight" else ""
            raise InputError(
                f"{name} must be a DataArray along some of {self._dims()}{way}, as the rows are a "
                f"cube, got {describe_value(values)}"
            )
        flat = self._broadcast(values, name)
        if self.lazy:
            flat = da.asarray(flat).rechunk((self.samples.chunks[0],))
            if self.rows is self.samples:
                return flat
            sizes = (self.rows.chunks[0],)
            kept = self.samples, flat[:, np.newaxis]
            return da.map_blocks(
                dpmeans_beside_rows, *kept, drop_axis=1, chunks=sizes, dtype=flat.dtype
            )
        flat = np.asarray(flat)
        return flat if self.present is None else flat[self.present]

    def place(self, answer: Any, dim: str = "cluster") -> Any:
        """Return answers for the rows, (n,) or (n, k), as a DataArray on the samples' grid.

        Samples that are no rows have label -1, or NaN.  `dim` is the dimension of size k.
        """
        labels = answer.dtype.kind == "i"
        fill = -1 if labels else np.nan
        placed: Any
        if isinstance(answer, da.Array):
            placed = self._placed_lazily(answer, fill)
        else:
            dense: Any = answer.toarray() if issparse(answer) else answer
            placed = self.grid.place(dense[: len(self.rows)], self.present, fill)
        dims = (*self.grid.samples, dim)[: placed.ndim]
        found = data_array(placed, dims, self.grid.sample_coords, self.grid.levels)
        if labels:
            found = found.rename("labels").assign_attrs(LABELS)
        return found.isel(dict.fromkeys(self.added, 0))

    def as_cube(self, rows: Raw) -> Any:
        """Return rows, (n_samples, d), as a DataArray (*samples, *features)."""
        grid = self.grid
        values = rows.reshape(*grid.shape, *grid.features.values())
        coords = grid.sample_coords + grid.feature_coords
        found = data_array(values, (*grid.samples, *grid.features), coords, grid.levels)
        return found.rename(grid.name).isel(dict.fromkeys(self.added, 0))

    def _placed_lazily(self, answer: da.Array, fill: float) -> da.Array:
        """Return answers of Dask for the rows, (n, ...), on the samples' grid; `fill` stands where no row is."""
        width = answer.shape[1:]
        if self.rows is not self.samples or issparse(answer._meta):
            columns = () if width else (1,)
            answer = da.map_blocks(
                dpmeans_on_grid,
                self.samples,
                answer[(..., *(np.newaxis for _ in columns))],
                fill=fill,
                squeeze=not width,
                keep_all=self.rows is self.samples,
                chunks=(self.samples.chunks[0], *((each,) for each in width)),
                drop_axis=() if width else 1,
                meta=np.empty((0,) * (1 + len(width)), answer.dtype),
            )
        with dask.config.set({"array.rechunk.method": "tasks"}):
            return answer.reshape(*self.grid.shape, *width)

    def _broadcast(self, values: Any, name: str) -> Any:
        """Return values, along some of the samples' dimensions, for all samples, (n_samples,)."""
        sizes = self.grid.samples
        others = [str(dim) for dim in values.dims if dim not in sizes]
        if others:
            raise InputError(
                f"{name} has the dimension {others[0]!r}, along which there are no samples: they "
                f"are along {self._dims()}"
            )
        indexes = {dim: self.coords[dim] for dim in values.dims if dim in self.coords}
        try:
            xarray.align(xarray.Dataset(coords=indexes), values, join="exact")
        except ValueError as error:
            raise InputError(
                f"{name} has other coordinates or sizes than X: reindex it, as "
                f"{name}.reindex_like(X) does ({error})"
            ) from error
        for dim in values.dims:
            if values.sizes[dim] != sizes[dim]:
                got = f"{values.sizes[dim]:,} along {dim!r}, where X has {sizes[dim]:,}"
                raise InputError(f"{name} must broadcast against the samples, got {got}")
        variable = values.variable.set_dims(dict(sizes)).transpose(*sizes)
        return variable.data.reshape(-1)

    def _dims(self) -> str:
        return ", ".join(map(repr, self.grid.samples))


LABELS = {
    "long_name": "number of the cluster",
    "flag_values": [-1],
    "flag_meanings": "in_no_cluster",
    "comment": "-1: a sample that was left out since a feature is NaN, or an outlier",
}
"""Attributes of labels, for flags of the CF conventions (section 3.5)."""


def open_cube(
    data: Any, samples: grids.Dimensions, features: grids.Dimensions, *, missing: bool = False
) -> Cube:
    """Return a DataArray or Dataset as rows for a fit.

    A Dask array is read once to count the rows of its chunks, if it may hold NaN.

    Parameters
    ----------
    data : `xarray.DataArray` or `xarray.Dataset`, whose variables are along "variable"
    samples, features : names of dimensions; one may be None for all others
    missing : whether NaN is a missing value; then all samples are rows

    Raises
    ------
    InputError
        Other data or dimensions, or no row at all.
    """
    if not isinstance(data, xarray.DataArray | xarray.Dataset):
        raise InputError(
            "samples and features name dimensions of an xarray DataArray or Dataset, but X is a "
            f"{type(data).__name__}: leave them out, or give it dimensions, as "
            "xarray.DataArray(X, dims=[...]) does"
        )
    array = _as_array(data, samples, features)
    grids.Grid.of(*array).check_sizes("X")
    cube = _cube_of(*array, missing)
    if cube.lazy and cube.rows is not cube.samples:
        cube = replace(cube, rows=_rows_lazily(cube.samples, _counts(cube.samples)))
    if cube.rows.shape[0] == 0:
        n = cube.grid.n_samples
        raise InputError(
            f"X has no sample with all its features: {n:,} of {n:,} have NaN in some of "
            f"{cube.grid.n_features:,}; leave features out, fill gaps, or fit "
            "DPMeans(missing='observed')"
        )
    return cube


def cube_like(data: Any, fitted: grids.Grid, *, missing: bool = False) -> Cube:
    """Return a DataArray or Dataset as rows with the features of a fit, in its order.

    A dimension of samples that `data` does not have is taken as one place of a grid.
    """
    dims = _sizes(data)
    added = tuple(dim for dim in fitted.samples if dim not in dims)
    _check_unstacked(data, added)
    array = data.expand_dims(added) if added else data
    array, samples, features = _as_array(array, tuple(fitted.samples), tuple(fitted.features))
    grid = grids.Grid.of(array, samples, features)
    for dim, size in fitted.features.items():
        wanted, found = fitted.labels(dim), grid.labels(dim)
        if wanted != found and sorted(wanted) == sorted(found):
            places = {label: place for place, label in enumerate(found)}
            array = array.isel({dim: [places[label] for label in wanted]})
        elif size != grid.features[dim]:
            raise InputError(
                f"X has {grid.features[dim]:,} features along {dim!r}, the fit had {size:,}"
            )
    return _cube_of(array, samples, features, missing, added)


def _check_unstacked(data: Any, added: Names) -> None:
    """Refuse data that have a dimension of the samples as a coordinate along another one."""
    for name in added:
        along = data.coords[name].dims if name in data.coords else ()
        if along:
            raise InputError(
                f"X has {name!r}, a dimension of the samples of the fit, along {along[0]!r}: bring it "
                f"to the dimensions of the fit, as "
                f"X.unstack({along[0]!r}) does after X.stack, or X.set_index({along[0]}={list(added)}) before it"
            )


def data_array(
    values: Any, dims: Sequence[str], coords: Sequence[grids.Coordinate], levels: Any
) -> "xarray.DataArray":
    """Return values, (...), as an array of xarray with some coordinates of a grid."""
    made = {each.name: (each.dims, each.values, each.attrs) for each in coords}
    found = xarray.DataArray(values, dims=tuple(dims), coords=made)
    indexes = {dim: list(names) for dim, names in levels.items() if dim in dims}
    return found.set_index(indexes) if indexes else found


def centers_array(grid: grids.Grid, centers: Float64Array) -> "xarray.DataArray":
    """Return centers, (k, d), as an array (cluster, *features) with the features' coordinates."""
    shaped = centers.reshape(len(centers), *grid.features.values())
    return data_array(shaped, ("cluster", *grid.features), grid.feature_coords, grid.levels).rename(
        grid.name
    )


def dpmeans_rows_of_cube(samples: Raw) -> Raw:
    """Return the samples, (m, d), that have all features."""
    return samples[_present(samples)]


def dpmeans_beside_rows(samples: Raw, values: Raw) -> Raw:
    """Return the values, (m, 1), of samples, (m, d), that have all features, (n,)."""
    return values[_present(samples), 0]


def dpmeans_on_grid(samples: Raw, answer: Any, fill: float, squeeze: bool, keep_all: bool) -> Raw:
    """Return answers for rows, (n, k), for all samples, (m, k), or (m,) if k is 1 by `squeeze`."""
    dense = answer.toarray() if issparse(answer) else answer
    if not keep_all:
        placed = np.full((len(samples), dense.shape[1]), fill, dense.dtype)
        placed[_present(samples)] = dense
        dense = placed
    return dense[:, 0] if squeeze else dense


def _present(samples: Raw) -> Raw:
    """Return which samples, (m, d), have all features, (m,) bool."""
    return np.asarray(~np.isnan(samples).any(axis=1))


def _count_rows(samples: Raw) -> Raw:
    return np.array([np.count_nonzero(_present(samples))])


def _counts(samples: Any) -> tuple[int, ...]:
    """Return the number of rows of each chunk of samples, in one pass."""
    ones = ((1,) * samples.numblocks[0],)
    counts = samples.map_blocks(_count_rows, drop_axis=1, chunks=ones, dtype=np.int64)
    return tuple(int(count) for count in counts.compute())


def _rows_lazily(samples: Any, counts: Sequence[float]) -> Any:
    """Return the samples that are rows as a Dask array; counts may be NaN, for unknown ones."""
    chunks = (tuple(counts), samples.chunks[1])
    return samples.map_blocks(dpmeans_rows_of_cube, chunks=chunks, dtype=samples.dtype)


def _cube_of(array: Any, samples: Names, features: Names, missing: bool, added: Names = ()) -> Cube:
    """Return an array of xarray as rows."""
    grid = grids.Grid.of(array, samples, features)
    ordered = array.transpose(*samples, *features)
    values, shape = ordered.data, (grid.n_samples, grid.n_features)
    complete = missing or array.dtype.kind not in "fc"
    if isinstance(values, da.Array):
        samples_array = rows = _flat(values, len(samples), shape)
        if not complete:
            rows = _rows_lazily(rows, (np.nan,) * rows.numblocks[0])
        return Cube(grid, array.coords, samples_array, rows, None, added)
    in_memory: Raw = np.asarray(values).reshape(shape)
    if complete:
        return Cube(grid, array.coords, in_memory, in_memory, None, added)
    present: Raw = _present(in_memory)
    return Cube(grid, array.coords, in_memory, in_memory[present], present, added)


def _flat(values: da.Array, n_dims: int, shape: tuple[int, int]) -> da.Array:
    """Return a Dask array as all samples, (n_samples, d); a chunk holds all features."""
    across = dict.fromkeys(range(n_dims, values.ndim), -1)
    with dask.config.set({"array.rechunk.method": "tasks"}):
        return values.rechunk(across).reshape(shape)


def _sizes(data: Any, name: str = "X") -> dict[str, int]:
    """Return the sizes of the dimensions of an array, or of a Dataset with its variables.

    Raise `InputError` if one is unknown, or if a variable is still encoded.
    """
    single = isinstance(data, xarray.DataArray)
    variables = {name: data}
    if not single:
        variables = {f"{name}[{str(key)!r}]": each for key, each in data.data_vars.items()}
    for shown, each in variables.items():
        _check_decoded(each, shown)
        unknown = [dim for dim, size in each.sizes.items() if size != size]
        if unknown:
            raise InputError(
                f"{shown} has an unknown size along {unknown[0]!r}, as its Dask array has chunks of "
                f"unknown sizes: call {shown}.data.compute_chunk_sizes() first"
            )
    dims = {str(dim): size for each in variables.values() for dim, size in each.sizes.items()}
    return dims if single else {grids.VARIABLE: len(variables), **dims}


def _check_decoded(array: Any, name: str) -> None:
    """Refuse an array with attributes by which xarray would replace or scale its values."""
    for key, idle in PACKED.items():
        value = array.attrs.get(key, idle)
        if np.any((np.asarray(value) != idle) & (np.asarray(value) == value)):
            raise InputError(
                f"{name} has the attribute {key}={value}, but its values are not decoded by it: "
                f"decode them, as xarray.decode_cf({name}.to_dataset(name='x'))['x'] does, or delete "
                f"the attribute, {name}.attrs.pop({key!r})"
            )


def _as_array(
    data: Any, samples: grids.Dimensions, features: grids.Dimensions, name: str = "X"
) -> tuple[Any, Names, Names]:
    """Return one array of xarray, and the dimensions of samples and features."""
    if isinstance(data, xarray.DataArray):
        return data, *grids.split_dimensions(_sizes(data, name), samples, features)
    names = [str(name) for name in data.data_vars]
    if not names:
        raise InputError("X is a Dataset without variables: choose others, or X.reset_coords()")
    named = grids.as_names("samples", samples) + grids.as_names("features", features)
    if len(names) == 1 and grids.VARIABLE not in named:
        return _as_array(data[names[0]], samples, features, f"X[{names[0]!r}]")
    if None not in (samples, features) and grids.VARIABLE not in named:
        raise InputError(
            f"X is a Dataset of the variables {', '.join(map(repr, names))}: choose one, as "
            f"X[{names[0]!r}] does, or choose some and name {grids.VARIABLE!r} in features"
        )
    dims = grids.split_dimensions(_sizes(data), samples, features)
    for name, each in data.data_vars.items():
        _check_variable(str(name), each, *dims)
    return data.to_dataarray(grids.VARIABLE), *dims


def _check_variable(name: str, variable: Any, samples: Names, features: Names) -> None:
    """Refuse a variable that is no array of numbers, or would be repeated along features."""
    way = "choose other variables, as X[['first', 'second']] does"
    if variable.dtype.kind not in "biuf":
        raise InputError(f"the variable {name!r} of X holds {variable.dtype}, no numbers: {way}")
    lacking = [dim for dim in features if dim not in (grids.VARIABLE, *variable.dims)]
    if lacking:
        raise InputError(
            f"the variable {name!r} of X has no dimension {lacking[0]!r}, and would be repeated "
            f"along it: {way}"
        )
    if not set(samples) & {grids.VARIABLE, *variable.dims}:
        raise InputError(f"the variable {name!r} of X is the same for all samples: {way}")
