"""The picture of the labels of a run of a cube, on the grid of its samples."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import LabelMap, Model, Side, side
from dask_dpmeans.report.page import Picture
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.array_spec import LABEL_MAP
from dask_dpmeans.storage.run_store import Result

MOST_SAMPLES = 1200
"""Most samples along a side of the map."""


def drawn_labels(result: Result, model: Model) -> Picture | None:
    """Return the labels on their grid as a picture; None without a grid of two dimensions."""
    found = labels_on_grid(result)
    if found is None:
        return None
    caption = "The samples on their grid, in the colors of their clusters."
    if (found.labels < 0).any():
        caption += " Samples in no cluster are blank."
    for each in (found.down, found.across):
        if len(each.places) < each.size:
            caption += f" Along {each.name} it has {len(each.places):,} of {each.size:,} samples."
    draw = partial(plot.label_map, found, model.cluster_weights_)
    return Picture.of("Map", caption, draw, dots=True)


def labels_on_grid(result: Result) -> LabelMap | None:
    """Return the labels on their grid; None if the run has no grid of two dimensions."""
    grid = result.manifest.grid
    if grid is None or len(grid["samples"]) != 2:
        return None
    steps = [-(-size // MOST_SAMPLES) for size in grid["samples"].values()]
    labels = arrays.CheckedArray(
        result.output.verified_array(LABEL_MAP, arrays.open_whole(result.store / LABEL_MAP))
    )[:: steps[0], :: steps[1]]
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
