"""Reading of the values of a cube: its stored chunks, as Zarr decodes them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.buffer.cpu import NDBuffer

from dask_dpmeans.sources.formats.cube_dataset import is_plain, open_stored
from dask_dpmeans.sources.formats.cube_values import Part, Piece, Values
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    import zarr
    from xarray import Variable


class Chunks(NDBuffer):
    """Buffer that keeps the stored chunks that Zarr decodes instead of copying them.

    Each copy, and each fresh page of memory for it, costs half as much as zstd does.
    """

    def __init__(self, box: Any) -> None:
        super().__init__(box)
        self.box: Raw = box
        """The whole box, without the values of `pieces`."""
        self.pieces: list[Piece] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep a chunk, or the fill value of a chunk that is not stored."""
        found = value.as_numpy_array() if isinstance(value, NDBuffer) else value
        self.pieces.append((key, np.broadcast_to(found, self.box[key].shape)))

    def assemble(self) -> None:
        """Write the chunks into the box; other pipelines of codecs have done it themselves."""
        for place, values in self.pieces:
            self.box[place] = values
        self.pieces.clear()

    @property
    def whole(self) -> bool:
        """Whether all of the box has been kept."""
        return sum(values.size for _, values in self.pieces) == self.box.size


def open_values(place: Location, names: Sequence[str], fill_missing: bool) -> list[Values]:
    """Open variables; those that xarray would not change are read without it."""
    cube, arrays = open_stored(place, names, fill_missing)
    return [_values_of(cube[name].variable, arrays.get(name)) for name in names]


def _values_of(variable: "Variable", array: "zarr.Array[Any] | None") -> Values:
    dims = tuple(map(str, variable.dims))
    if array is not None and is_plain(variable, array):
        return Values(dims, partial(_stored_box, array))
    # A transpose before the values are read makes xarray index each number by itself.
    return Values(dims, lambda box: Chunks(np.asarray(variable[box].load().values)))


def _stored_box(array: "zarr.Array[Any]", box: Part) -> Chunks:
    """Return a box of an array, (...), as its stored chunks."""
    shape = [part.stop - part.start for part in box]
    chunks = Chunks(np.empty(shape, array.dtype))
    array.get_basic_selection(box, out=chunks)
    return chunks
