"""Rows and centers in a plane."""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import checked_rows
from dask_dpmeans.figures.data.columns import Model, checked_names, column_numbers, drawn_centers
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.plot_statistics import Covariance, Edge, Histogram, Plane
from dask_dpmeans.sources import RowSource, Stored, as_source
from dask_dpmeans.storage.location import AnyPlace

FEW_ROWS = 10_000
"""Fewer rows are drawn as points."""
BINS, MOST_BINS = 400, 4000
"""Default and largest number of boxes along a side: at most 16 million numbers for each task."""
WINDOW_DEVIATIONS = 4.0
"""The window ends this many standard deviations from the mean, or at the last row."""
MOST_COLUMNS = 2048
"""Principal directions are found for up to this many columns, whose products take 32 MB."""


class DensityOptions(Stored, total=False):
    """Keyword options of `density`, for `plot.density`."""

    feature_names: Sequence[str] | None
    sample_weight: ArrayLike | AnyPlace | None
    bins: int


class Density(NamedTuple):
    """Rows and centers in a plane of a = 2 axes, or on a line (a = 1) if there is one column."""

    centers: Float64Array
    """(k, a), of clusters, or of micro-clusters if there are any."""
    points: Float64Array | None
    """(n, a), if there are few rows."""
    counts: Float64Array | None
    """(b, c) or (b,), if there are many rows: their weight in each box."""
    low: Float64Array
    """(a,), lower corner of the first box, or of all points and centers."""
    high: Float64Array
    """(a,), the opposite corner."""
    outside: float
    """Weight of the rows outside of all boxes."""
    n_rows: int
    axes: list[str]
    """Label of each axis."""
    unit: str
    """Unit of the axes."""


def density(
    X: ArrayLike | AnyPlace | RowSource,
    model: Model,
    columns: Sequence[int | str] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    sample_weight: ArrayLike | AnyPlace | None = None,
    bins: int = BINS,
    **where: Unpack[Stored],
) -> Density:
    """Return the positions of rows and centers in a plane, as the fit sees them.

    This takes up to three passes over the rows: one checks them, one finds the principal directions
    if no columns are given, and one counts.  If columns were scaled and then rows brought to unit
    length, there is one more.  Fewer than 10,000 rows with two axes are points.  Otherwise the
    weight of the rows is summed in `bins` x `bins` boxes, block by block, in a window up to 4
    standard deviations from the mean.  The result is the same, to the byte, for any chunking,
    threads and workers.

    Parameters
    ----------
    X : (n, d) rows as for `fit`, the path or URL of a Zarr array or ``.npy`` file, or a `rows_of`
    model : a fitted estimator with `cluster_centers_` or `micro_centers_`
    columns : two (or one) numbers or names of columns of X, optional
        The default is the two directions of largest variance.
    feature_names : (d,) str, optional, names of the columns that the fit used
    sample_weight : (n,), optional
    bins : int >= 1
        The number of boxes along a side is at most this, and at most twice the root of n.
    **where : client, threads, memory_limit, as for `dask_dpmeans.fit`

    Returns
    -------
    Density
    """
    bins = checks.integer("bins", bins)
    if bins > MOST_BINS:
        most = f"bins must be an integer <= {MOST_BINS:,}"
        raise InputError(f"{most}, got {bins:,}: a picture has no more points")
    centers, unit = drawn_centers(model, "a picture of rows"), model.description().units
    names = checked_names(model, feature_names)
    source = X if isinstance(X, RowSource) else rows_of(X, model, sample_weight, **where)
    plane, deviations, axes = _plane(source, names, column_numbers(model, names, columns))
    centers, n_rows = plane(centers), source.plan.n_rows
    if n_rows < FEW_ROWS and len(axes) == 2:
        points = plane(source.fold(Gather(), name="gather").rows)
        both = np.concatenate([points, centers])
        low, high = both.min(axis=0), both.max(axis=0)
        return Density(centers, points, None, low, high, 0.0, n_rows, axes, unit)
    low, high = _window(source, plane, deviations)
    boxes = Histogram(plane, low, high, min(bins, max(20, 2 * math.isqrt(n_rows))))
    counts = boxes.counts(source.fold(boxes, name="density"))
    outside = max(0.0, source.summary.weight - float(counts.sum()))
    counts, low, high = _trim(counts, low, high, centers)
    return Density(centers, None, counts, low, high, outside, n_rows, axes, unit)


def edge(source: RowSource, predict: Kernel, penalty: float) -> tuple[int, int]:
    """Count the rows near the radius (squared distance > 0.9 x penalty), and the rows beyond it.

    Rows of weight below 1 may lie anywhere, and are not counted.

    Parameters
    ----------
    source : the rows
    predict : kernel of a map, as the `predictor` of a `MethodSpec` returns it
    penalty : the squared radius
    """
    near, beyond = source.fold(Edge(predict, penalty), name="edge").tolist()
    return near, beyond


def rows_of(
    X: ArrayLike | AnyPlace,
    model: Model,
    sample_weight: ArrayLike | AnyPlace | None = None,
    **where: Unpack[Stored],
) -> RowSource:
    """Return rows as the fit saw its rows, in one pass; parameters as for `density`.

    If a `SpectralDPMeans` cannot map new rows, return the rows of its embedding; X is not read.
    """
    embedding = model.description().stored_rows
    if embedding is not None:
        return as_source(embedding, **where)
    column_names = None
    rows: Any = X
    if isinstance(X, str | os.PathLike):
        column_names = tuple(getattr(model, "feature_names_in_", ()))
    else:
        rows = checked_rows(model, X, reset=False)
    source = as_source(
        rows,
        sample_weight,
        column_names=column_names,
        columns=model.feature_columns_,
        scale=model.feature_scale_,
        features=model.features_,
        **where,
    )
    if source.stored_columns != model.n_features_in_:
        found = f"X has {source.stored_columns} columns"
        raise InputError(f"{found}, the fit had {model.n_features_in_}: give the same columns")
    return source


def _plane(
    source: RowSource, names: list[str], columns: list[int] | None
) -> tuple[Plane, Float64Array, list[str]]:
    """Return the plane, the standard deviations along its axes, (a,), and their labels."""
    d = source.n_features
    if columns is None and d > 2:
        return _principal_plane(source)
    if columns is None:
        columns = list(range(d))
    plane = Plane(np.zeros(d), np.eye(d)[:, columns])
    return plane, source.summary.deviation[columns], [names[column] for column in columns]


def _principal_plane(source: RowSource) -> tuple[Plane, Float64Array, list[str]]:
    """Return the same for the two directions of largest variance, in one pass."""
    d, mean = source.n_features, source.summary.mean
    if d > MOST_COLUMNS:
        limit = f"principal directions are found for up to {MOST_COLUMNS:,}"
        raise InputError(f"the rows have {d:,} columns, and {limit}: give two columns to look at")
    values, vectors = np.linalg.eigh(source.fold(Covariance(mean), name="covariance"))
    values, directions = np.maximum(values[[-1, -2]], 0.0), vectors[:, [-1, -2]]
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    shares = values / max(source.summary.squares.sum(), np.finfo(np.float64).tiny)
    axes = [
        f"principal direction {number}, {share:.0%} of the variance"
        for number, share in enumerate(shares, 1)
    ]
    return Plane(mean, directions * signs), np.sqrt(values / source.summary.weight), axes


def _window(
    source: RowSource, plane: Plane, deviations: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return two corners, (a,): some deviations from the mean, or the bounds of the rows."""
    found, origin = source.summary, plane.origin @ plane.directions
    lowest = plane.directions * found.lowest[:, np.newaxis]
    highest = plane.directions * found.highest[:, np.newaxis]
    mean, reach = plane(found.mean[np.newaxis])[0], WINDOW_DEVIATIONS * deviations
    low = np.maximum(mean - reach, np.minimum(lowest, highest).sum(axis=0) - origin)
    high = np.minimum(mean + reach, np.maximum(lowest, highest).sum(axis=0) - origin)
    return low, np.where(high > low, high, low + 1.0)


def _trim(
    counts: Float64Array, low: Float64Array, high: Float64Array, centers: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return counts and corners without empty boxes at the sides, unless a center lies there."""
    bins, sides = len(counts), counts.ndim
    width = (high - low) / bins
    first, last = np.empty(sides, np.intp), np.empty(sides, np.intp)
    for side in range(sides):
        filled = np.atleast_1d(counts.any(axis=tuple(set(range(sides)) - {side})))
        boxes = np.floor((centers[:, side] - low[side]) / width[side])
        filled[boxes[(boxes >= 0) & (boxes < bins)].astype(np.intp)] = True
        first[side], last[side] = filled.argmax(), bins - filled[::-1].argmax()
    kept = counts[tuple(slice(*ends) for ends in zip(first, last, strict=True))]
    return kept, low + first * width, low + last * width
