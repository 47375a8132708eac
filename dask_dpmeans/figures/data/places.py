"""Rows that are places on the earth, and their centers, by longitude and latitude."""

import numpy as np

from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.figures.data.columns import Model
from dask_dpmeans.figures.data.rows import (
    FEW_ROWS,
    Density,
    layers_of,
    trim_empty_boxes,
    upper_ends,
)
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.boxes import Histogram
from dask_dpmeans.kernels.cluster_statistics import ByCluster, Points
from dask_dpmeans.kernels.plot_statistics import Bounds, Chart
from dask_dpmeans.sources import RowSource

BINS = 200
"""Boxes along a side: few, so that one with a single place can be seen."""
EMPTY = 90.0
"""Degrees of longitude without a center from which on a chart begins among them, not at the date
line."""


def chart(source: RowSource, model: Model, predict: Kernel) -> Density:
    """Return the rows and centers of a fit with ``metric="haversine"`` on a chart of the earth.

    `predict` returns the label, the cost, and whether it exceeds the penalty, of each row.  Fewer
    than 10,000 rows are points; otherwise weights are summed in boxes, as in `density`, between
    the bounds of all rows, which take one more pass.
    """
    plane = Chart(first_longitude(Chart()(model.cluster_averages_)[:, 0]))
    centers, n_rows = plane(model.cluster_averages_), source.plan.n_rows
    clusters, layers = layers_of(model.cluster_weights_)
    points = labels = counts = None
    if n_rows < FEW_ROWS:
        (found,) = source.fold(ByCluster(predict, (Points(plane),)), name="places")
        points, labels = found.coordinates, found.labels
        both = np.concatenate([points, centers])
        low, high = both.min(axis=0), both.max(axis=0)
    else:
        low, high = source.fold(Bounds(plane), name="bounds")
        high = upper_ends(low, high)
        boxes = Histogram(plane, low, high, BINS, clusters)
        (answer,) = source.fold(ByCluster(predict, (boxes,)), name="places")
        counts, low, high = trim_empty_boxes(boxes.counts(answer), low, high, centers)
    places = centers, np.arange(len(centers)), points, labels, counts, layers, low, high, 0.0
    axes = ["longitude", "latitude"]
    return Density("Places", *places, n_rows, axes, "degrees", is_chart=True)


def first_longitude(longitudes: Float64Array) -> float:
    """Return where a chart of centers at longitudes, (k,), begins: the date line, or far from all.

    >>> first_longitude(np.array([175.0, -178.0])), first_longitude(np.arange(-170.0, 180.0, 20))
    (-1.5, -180.0)
    """
    ordered = np.sort(longitudes)
    gaps = np.diff(np.append(ordered, ordered[0] + 360))
    widest = int(gaps.argmax())
    if gaps[widest] < EMPTY:
        return -180.0
    return float((ordered[widest] + gaps[widest] / 2) % 360 - 360)
