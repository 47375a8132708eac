"""Weights of the rows of a cube in a store, which are read with the rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dask_dpmeans.sources.formats.cube import CubeRows
from dask_dpmeans.sources.formats.cube_dataset import open_dataset
from dask_dpmeans.sources.latitudes import cosines, latitude_of
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location


@dataclass(frozen=True)
class CubeWeights:
    """The cosine of the latitude of each row; each task reads the latitudes for itself."""

    place: Location
    name: str
    """Name of the coordinate."""
    dims: tuple[str, ...]
    """Dimensions of the samples that it has, in their order."""
    n_rows: int

    @classmethod
    def of(cls, cube: CubeRows) -> "CubeWeights":
        """Return the weights of a cube, whose grid is known."""
        latitude = latitude_of(() if cube.grid is None else cube.grid.sample_coords)
        dims = tuple(dim for dim in cube.samples if dim in latitude.dims)
        return cls(cube.place, latitude.name, dims, cube.n_rows)

    @property
    def shape(self) -> tuple[int]:
        """Rows."""
        return (self.n_rows,)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64."""
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice) -> Raw:
        raise TypeError("weights of a cube are read with its rows")

    def of_run(self, cube: CubeRows, run: int) -> Raw:
        """Return the weights of all samples of a run, (m,), those that are left out too."""
        box = dict(zip(cube.samples, cube.runs.box(run), strict=True))
        part = self._latitudes.isel({dim: box[dim] for dim in self.dims}).transpose(*self.dims)
        sizes = {dim: each.stop - each.start for dim, each in box.items()}
        shape = [size if dim in self.dims else 1 for dim, size in sizes.items()]
        found = cosines(part.values, self.name).reshape(shape)
        return np.broadcast_to(found, list(sizes.values())).reshape(-1)

    @cached_property
    def _latitudes(self) -> Any:
        return open_dataset(self.place, (self.name,), False)[self.name].variable

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_latitudes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
