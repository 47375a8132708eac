"""Grids: which dimensions of a cube are samples and which are features, with their coordinates.

Nothing here needs xarray: `Grid.of` reads an array of xarray that is there already.  `latitude_of` and
`cosines` make weights of latitudes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources.names import Names
from dask_dpmeans.sources.row_array import Raw

Dimensions = str | Iterable[str] | None
"""Names of dimensions as a user gives them; None for all others."""
VARIABLE = "variable"
"""Dimension of the variables of a Dataset, as `xarray.Dataset.to_dataarray` names it."""
LATITUDE = "latitude"
"""Weights by the cosine of the latitude."""
LATITUDE_UNITS = ["degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN"]
"""Units of latitudes, by the CF conventions (section 4.1)."""
LATITUDE_NAMES = ("lat", "latitude", "nav_lat")
"""Names of latitudes, in any case, where no attribute says what they are."""
BEYOND_POLE = 1e-3
"""Degrees beyond a pole that are rounding: float32 has 8e-6 there."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """One coordinate of a cube."""

    name: str
    dims: tuple[str, ...]
    """Its dimensions; none for a scalar."""
    values: Any
    """NumPy array, or a Dask array as in the cube."""
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Grid:
    """The samples' grid and the features of a cube.

    Rows are the samples in C order of their dimensions, columns the features in C order of theirs.
    """

    samples: Mapping[str, int]
    """Sizes of the samples' dimensions, in order."""
    features: Mapping[str, int]
    """Sizes of the features' dimensions, in order; none for one column."""
    sample_coords: tuple[Coordinate, ...] = ()
    """Coordinates along samples' dimensions alone, and scalars."""
    feature_coords: tuple[Coordinate, ...] = ()
    """Coordinates along features' dimensions alone."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Coordinates that are the levels of a MultiIndex, by its dimension."""
    name: str | None = None
    """Name of the cube."""

    @classmethod
    def of(cls, cube: Any, samples: Dimensions, features: Dimensions, what: str = "X") -> "Grid":
        """Return the grid of an `xarray.DataArray`; `what` is its name in errors."""
        sizes = dict(cube.sizes)
        of_samples, of_features = split_dimensions(sizes, samples, features, what)
        levels = _levels(cube)
        coords = [
            Coordinate(str(name), each.dims, each.variable.data, dict(each.attrs))
            for name, each in cube.coords.items()
            if name not in levels
        ]
        return cls(
            {dim: sizes[dim] for dim in of_samples},
            {dim: sizes[dim] for dim in of_features},
            tuple(each for each in coords if set(each.dims) <= set(of_samples)),
            tuple(each for each in coords if each.dims and set(each.dims) <= set(of_features)),
            levels,
            None if cube.name is None else str(cube.name),
        )

    def check_sizes(self, what: str) -> None:
        """Raise `InputError` if there is nothing along a dimension."""
        empty = [dim for dim, size in {**self.samples, **self.features}.items() if not size]
        if empty:
            raise InputError(f"{what} has size 0 along {_quoted(empty)}: choose another part of it")

    @property
    def n_samples(self) -> int:
        """Number of samples, those without values included."""
        return int(np.prod(list(self.samples.values()), dtype=np.int64))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(np.prod(list(self.features.values()), dtype=np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the samples' grid."""
        return tuple(self.samples.values())

    @property
    def column_names(self) -> Names:
        """Names of the columns: text and dates as they are, other values as ``level=500``."""
        if not self.features:
            return (self.name or "value",)
        labels = [self.labels(dim) for dim in self.features]
        return tuple(" ".join(each) for each in product(*labels))

    def place(self, values: Raw, present: Raw | None, fill: object) -> Raw:
        """Return values of the rows, (n, ...), on the samples' grid, (*shape, ...).

        `present` is (n_samples,) bool, whether a sample is a row; None if each sample is one.
        Other samples get `fill`.
        """
        if present is not None:
            placed = np.full((self.n_samples, *values.shape[1:]), fill, values.dtype)
            placed[present] = values
            values = placed
        return values.reshape(*self.shape, *values.shape[1:])

    def labels(self, dim: str) -> list[str]:
        """Return a text for each place along a dimension of features, all different."""
        found = [each for each in self.feature_coords if each.name == dim]
        if found:
            labels = [_label(dim, value) for value in np.asarray(found[0].values)]
            if len(set(labels)) == self.features[dim]:
                return labels
        return [f"{dim}={place}" for place in range(self.features[dim])]


def is_cube(data: object) -> bool:
    """Return whether data are an array or a Dataset of xarray."""
    return type(data).__module__.startswith("xarray.")


def split_dimensions(
    sizes: Mapping[str, int], samples: Dimensions, features: Dimensions, what: str = "X"
) -> tuple[Names, Names]:
    """Return the samples' and the features' dimensions of an array, each in the order given.

    Parameters
    ----------
    sizes : the dimensions that there are
    samples, features : names; one of the two may be None for all other dimensions
    what : name of the array in errors

    Raises
    ------
    InputError
        Dimensions that are not there, in both or in neither of the two.
    """
    if samples is None and features is None:
        raise InputError(f"samples must name some of the dimensions of {what}: {_listed(sizes)}")
    named = {"samples": as_names("samples", samples), "features": as_names("features", features)}
    for argument, names in named.items():
        for name in names:
            _check_dimension(argument, name, names, sizes, what)
    taken = [name for names in named.values() for name in names]
    both = [name for name in sizes if taken.count(name) > 1]
    if both:
        raise InputError(f"samples and features both name {_quoted(both)}: leave it out of one")
    rest = tuple(name for name in sizes if name not in taken)
    of_samples = rest if samples is None else named["samples"]
    of_features = rest if features is None else named["features"]
    left = [name for name in rest if name not in of_samples and name not in of_features]
    if left:
        raise InputError(
            f"{what} also has the dimensions {_listed({name: sizes[name] for name in left})}: name "
            f"them in samples or features, or choose a part, as {what}.isel({left[0]}=0) does"
        )
    if not of_samples:
        raise InputError(f"no dimension of {what} is left for samples: {_listed(sizes)}")
    return of_samples, of_features


def latitude_of(coords: Sequence[Coordinate]) -> Coordinate:
    """Return the one coordinate that is the latitude, by its attributes or else by its name."""
    along = [each for each in coords if each.dims]
    ways = (
        [each for each in along if each.attrs.get("standard_name") == "latitude"],
        [each for each in along if each.attrs.get("units") in LATITUDE_UNITS],
        [each for each in along if each.name.lower() in LATITUDE_NAMES],
    )
    found = next(filter(None, ways), [])
    if len(found) != 1:
        names = ", ".join(repr(each.name) for each in found or along) or "none"
        reason = (
            "more than one coordinate is a latitude" if found else "no coordinate is a latitude"
        )
        raise InputError(
            f"{reason} along the samples: {names}; give sample_weight as a DataArray, such as "
            "numpy.cos(numpy.deg2rad(X.lat))"
        )
    return found[0]


def is_latitude(weights: object) -> bool:
    """Return whether weights are the cosines of the latitude."""
    return isinstance(weights, str) and weights == LATITUDE


def cosines(latitudes: Any, name: str) -> Float64Array:
    """Return the cosine of latitudes in degrees, (...), of the coordinate of this name."""
    degrees: Float64Array = np.ascontiguousarray(latitudes, np.float64)
    if (np.abs(degrees) > 90 + BEYOND_POLE).any():
        worst = degrees.flat[int(np.nanargmax(np.abs(degrees)))]
        raise InputError(
            f"the coordinate {name!r} holds {worst:g}, which is no latitude in degrees: give the "
            "weights as a DataArray"
        )
    return np.cos(np.deg2rad(degrees)).clip(0.0)


def as_names(argument: str, names: Dimensions) -> Names:
    """Return names that a user gave; none for None.

    Rows are in the order of the names, which a set changes from process to process.
    """
    if names is None or isinstance(names, str):
        return () if names is None else (names,)
    listed = isinstance(names, Iterable) and not isinstance(names, set | frozenset | Iterator)
    found = tuple(names) if listed else ()
    if not (listed and all(isinstance(name, str) for name in found)):
        got = describe_value(names)
        raise InputError(f"{argument} must be a name or a list of names, got {got}")
    return found


def _check_dimension(
    argument: str, name: str, names: Names, sizes: Mapping[str, int], what: str
) -> None:
    if name not in sizes:
        raise InputError(
            f"{argument} names {name!r}, which is no dimension of {what}: it has {_listed(sizes)}"
        )
    if names.count(name) > 1:
        raise InputError(f"{argument} names {name!r} twice: name each dimension once")


def _levels(cube: Any) -> dict[str, Names]:
    """Return the names of the levels of each MultiIndex of a cube, by its dimension."""
    found = {}
    for dim in cube.dims:
        together = cube.xindexes.get_all_coords(dim, errors="ignore")
        if len(together) > 1 and all(each.dims == (dim,) for each in together.values()):
            found[dim] = tuple(str(name) for name in together if name != dim)
    return found


def _label(dim: str, value: Any) -> str:
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, np.bool_ | np.number | int | float):
        return f"{dim}={value!s}"
    return str(value)


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({size:,})" for name, size in sizes.items()) or "none"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
