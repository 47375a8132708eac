"""Labels of the samples of a cube on their grid."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array, Labels
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.array_spec import LABEL_MAP
from dask_dpmeans.storage.run_store import Result

MOST_SAMPLES = 1200
"""Most samples along a side of the map."""

LATITUDES = ("lat", "latitude")
"""Names of dimensions, in any case, whose unit is not needed to tell what they are."""


class Side(NamedTuple):
    """A dimension of the grid."""

    name: str
    """With its unit, if it has one."""
    places: Float64Array
    """(m,), the coordinate, or the number along the dimension if there is no ordered one."""
    size: int
    """Samples along it, of which m at equal steps are shown."""
    has_coordinate: bool = False
    is_latitude: bool = False
    unit: str = ""
    from_top: bool = False
    """Whether the coordinate grows downwards, as a depth or the lines of an image."""


class LabelMap(NamedTuple):
    """Labels on a grid of two dimensions."""

    labels: Labels
    """(h, w), -1 for samples in no cluster."""
    down: Side
    """The first dimension, from the lower to the upper end of the picture or the other way."""
    across: Side
    from_top: bool
    """Whether the first line of the grid is at the top, as for images."""


def side(
    name: str, places: npt.NDArray[Any] | None, attributes: Mapping[str, Any], size: int, step: int
) -> Side:
    """Return a dimension of `size` samples of which each `step`-th is shown.

    `places` is its coordinate, (size,), and `attributes` its attributes.
    """
    numbers = np.arange(0.0, size, step)
    if places is None or places.dtype.kind not in "biuf":
        return Side(name, numbers, size)
    shown = places[::step].astype(np.float64)
    ordered = np.diff(shown)
    if not (np.all(ordered > 0) or np.all(ordered < 0)):
        return Side(name, numbers, size)
    unit = str(attributes.get("units", ""))
    is_latitude = name.lower() in LATITUDES or attributes.get("standard_name") == "latitude"
    from_top = attributes.get("positive") == "down"
    label = f"{name} [{unit}]" if unit else name
    return Side(label, shown, size, True, is_latitude, unit, from_top)


def labels_on_grid(result: Result) -> LabelMap | None:
    """Return the labels on their grid; None if the run has no grid of two dimensions."""
    grid = result.manifest.grid
    if grid is None or len(grid["samples"]) != 2:
        return None
    steps = [-(-size // MOST_SAMPLES) for size in grid["samples"].values()]
    labels = result.output.open_rows(LABEL_MAP)[:: steps[0], :: steps[1]]
    down, across = (
        _side(result, grid, name, step) for name, step in zip(grid["samples"], steps, strict=True)
    )
    # an image has no coordinates; the grid of a model has coordinates of two dimensions
    is_image = not [name for name in grid["arrays"] if name != LABEL_MAP]
    return LabelMap(labels, down, across, is_image or down.from_top)


def _side(result: Result, grid: Mapping[str, Any], name: str, step: int) -> Side:
    """Return a dimension of the grid with its coordinate, if it has one."""
    size = grid["samples"][name]
    if name not in grid["arrays"]:
        return side(name, None, {}, size, step)
    place, content = result.output.location / name, result.output.contents[name]
    values, attributes = arrays.read(place, content)
    return side(name, values, attributes, size, step)
