"""The arrays of outputs: names, types and dimensions, and a check of stored arrays against them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TABLES = "digests"
"""The group of the tables of digests."""
LABEL_MAP = "label_map"
"""The map of labels on the grid of a cube."""
DIGEST_BYTES = 16
"""Length of the digest of a chunk."""
Digests = npt.NDArray[np.uint8]
"""(chunk, byte)."""


@dataclass(frozen=True)
class ArraySpec:
    """One array of an output.

    An array whose dimensions differ from fit to fit has one spec for each variant.
    """

    name: str
    dimensions: tuple[str, ...]
    """Names of the dimensions, as in the store."""
    dtype: str | type[np.generic] = "float64"
    """The type, or a group of types such as `numpy.floating`."""
    sizes: tuple[str, ...] = ()
    """Names of the sizes, if they are not the names of the dimensions.  Sizes of one name are equal
    in all arrays."""
    beside: str | None = None
    """Another array of the result, without which this variant does not occur."""
    below: str | None = None
    """For an array of numbers of things: the size that all of them are below."""
    lowest: int = 0
    """The lowest of these numbers."""
    positive: bool = False
    """Whether all values are greater than 0."""
    over_rows: bool = False
    """Whether tasks write the array in chunks of rows, and readers open it lazily."""

    def fits(self, arrays: Mapping[str, np.ndarray[Any, Any]], sizes: Mapping[str, int]) -> bool:
        """Return whether the array of this name has the type and, as far as known, the shape.

        Arrays have any shape (...), and `sizes` are the known sizes by name.
        """
        values = arrays[self.name]
        if not np.issubdtype(values.dtype, self.dtype) or values.ndim != len(self.dimensions):
            return False
        if self.beside is not None and self.beside not in arrays:
            return False
        return all(sizes.get(name, size) == size for name, size in self.shape_of(values).items())

    def shape_of(self, values: np.ndarray[Any, Any]) -> dict[str, int]:
        """Return the shape of an array, (...), by the names of its sizes."""
        return dict(zip(self.sizes or self.dimensions, values.shape, strict=True))

    def check_values(self, values: np.ndarray[Any, Any], sizes: Mapping[str, int]) -> None:
        """Refuse an array, (...), with values that are not finite, not positive or out of range."""
        if not np.isfinite(values).all():
            raise ValueError(f"the array {self.name} holds what is no finite number")
        if self.positive and not (values > 0).all():
            raise ValueError(f"the array {self.name} holds numbers that are not > 0")
        if self.below is None:
            return
        most = sizes[self.below]
        if ((values < self.lowest) | (values >= most)).any():
            raise ValueError(
                f"the array {self.name} holds numbers that are not from {self.lowest} to below {most:,}"
            )


RUN_ARRAYS = (
    ArraySpec("labels", ("row",), "int32", over_rows=True),
    ArraySpec("feature_scale", ("feature",), sizes=("column",), positive=True),
    ArraySpec("feature_scale", ("column",), positive=True),
)
"""Arrays that runs of every method have, and the scale of the columns if the fit scaled them."""
FEATURE_NAMES = "feature"
"""Array of the names of the columns of the centers, for other readers: the coordinate of xarray."""


def check_arrays(
    specs: Iterable[ArraySpec], arrays: Mapping[str, np.ndarray[Any, Any]], sizes: Mapping[str, int]
) -> None:
    """Refuse arrays, (...), whose types, shapes or values do not fit their specs and one another.

    Variants of one array are tried in the order of `specs`, which may be of other arrays too.
    `sizes` are known from elsewhere, such as the number of rows.
    """
    variants: dict[str, list[ArraySpec]] = {}
    for spec in specs:
        variants.setdefault(spec.name, []).append(spec)
    known, chosen = dict(sizes), list[ArraySpec]()
    for name in sorted(arrays, key=list(variants).index):
        fitting = [each for each in variants[name] if each.fits(arrays, known)]
        if not fitting:
            values = arrays[name]
            raise ValueError(f"the array {name} cannot hold {values.dtype} of shape {values.shape}")
        known |= fitting[0].shape_of(arrays[name])
        chosen.append(fitting[0])
    for spec in chosen:
        spec.check_values(arrays[spec.name], known)
