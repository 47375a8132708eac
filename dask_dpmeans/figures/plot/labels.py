"""Labels that do not overlap."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dask_dpmeans.kernels.block import BoolArray, Float64Array


def place_labels(
    points: Float64Array,
    box: tuple[float, float],
    offsets: Sequence[tuple[float, float]],
    most: int | None = None,
) -> Float64Array:
    """Place labels at points, the first points first: no label overlaps another or covers a point.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    offsets : places of the middle of a label from its point; the first with room is taken
    most : number of points that may have labels, the first ones; by default all

    Returns
    -------
    (k, 2), the offset of each label; NaN if there is no room
    """
    placed, size = np.full(points.shape, np.nan), np.array(box)
    for number, point in enumerate(points[:most]):
        others = np.delete(points, number, axis=0)
        for offset in offsets:
            middle = point + offset
            covers = (np.abs(others - middle) < size / 2).all(axis=1).any()
            overlaps = (np.abs(points + placed - middle) < size).all(axis=1).any()
            if not (covers or overlaps):
                placed[number] = offset
                break
    return placed


def choose_spaced(
    points: Float64Array, box: tuple[float, float], above: float, most: int | None = None
) -> BoolArray:
    """Choose points to label, the first ones first, as `place_labels` does.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    above : distance from a point to the middle of the label above it
    most : as for `place_labels`

    Returns
    -------
    (k,) bool
    """
    return np.isfinite(place_labels(points, box, [(0.0, above)], most)[:, 0])


def paper_places(axes: Axes, points: Float64Array) -> Float64Array:
    """Return where points, (k, 2), are drawn, in points of 1/72 inch; this arranges the figure."""
    root = axes.get_figure(root=True)
    assert root is not None
    engine = root.get_layout_engine()
    if engine is not None:
        engine.execute(root)
    places: Float64Array = axes.transData.transform(points) * 72 / root.dpi
    return places
