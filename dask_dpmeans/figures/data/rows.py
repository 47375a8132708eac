"""Rows and centers in a plane, or on a chart of the earth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.checked_rows import rows_of
from dask_dpmeans.figures.data.columns import (
    Model,
    centers_of,
    checked_names,
    column_numbers,
    drawn_centers,
)
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Float64Array, Int64Array, Labels
from dask_dpmeans.kernels.boxes import Histogram
from dask_dpmeans.kernels.cluster_statistics import ByCluster, Points
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.plot_statistics import Bounds, Chart, Covariance, Plane
from dask_dpmeans.sources import RowSource, Stored
from dask_dpmeans.storage.location import AnyPlace

FEW_ROWS = 10_000
"""Fewer rows are drawn as points."""
BINS, MOST_BINS = 400, 800
"""Default and largest number of boxes along a side: with 25 layers, up to 16 million numbers in an
answer."""
WINDOW_DEVIATIONS = 4.0
"""The window ends this many standard deviations from the mean, or at the last row."""
MOST_COLUMNS = 2048
"""Principal directions are found for up to this many columns, whose products take 32 MB."""


LAYERED = 24
"""The heaviest clusters that are counted, and colored, each by itself."""
RIDGE = 1e-9
"""Share of the average variance that is added to the variance within clusters."""


class DensityOptions(Stored, total=False):
    """Keyword options of `density`, for `plot.density`."""

    feature_names: Sequence[str] | None
    sample_weight: ArrayLike | AnyPlace | None
    bins: int


class Density(NamedTuple):
    """Rows and centers in a plane of a = 2 axes, or on a line (a = 1) if there is one column."""

    title: str
    centers: Float64Array
    """(k, a), of clusters, or of micro-clusters if there are any."""
    groups: Int64Array
    """(k,), the cluster of each center."""
    points: Float64Array | None
    """(n, a), if there are few rows."""
    labels: Labels | None
    """(n,), the cluster of each point, -1 for noise."""
    counts: Float64Array | None
    """(c, b, b') or (c, b), if there are many rows: their weight in each box, by layer."""
    layers: Int64Array
    """(c,), the cluster of each layer, the heaviest first; the last is -1, for all other rows."""
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
    is_chart: bool = False
    """Whether the axes are longitude and latitude."""


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

    A row belongs to the cluster of its nearest center.  This takes up to three passes over the
    rows: one checks them, one finds the principal directions if no columns are given, and one
    counts.  If columns were scaled and then rows brought to unit length, there is one more.  Fewer
    than 10,000 rows with two axes are points.  Otherwise the weight of the rows of each of the 24
    heaviest clusters, and of all others, is summed in `bins` x `bins` boxes, block by block, in a
    window up to 4 standard deviations from the mean.  The result is the same, to the byte, for any
    chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows as for `fit`, the path or URL of a Zarr array or ``.npy`` file, or a `rows_of`
    model : a fitted estimator with `cluster_centers_` or `micro_centers_`
    columns : two (or one) numbers or names of columns of X, optional
        The default is the two directions of largest variance.
    feature_names : (d,) str, optional, names of the columns that the fit used
    sample_weight : (n,), optional
    bins : int from 1 to 800
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
    drawn_centers(model)
    names = checked_names(model, feature_names)
    source = X if isinstance(X, RowSource) else rows_of(X, model, sample_weight, **where)
    view = _view(source, model, names, column_numbers(model, names, columns))
    statistic = view.statistic(source, model, bins)
    (answer,) = source.fold(ByCluster(nearest_clusters(model), (statistic,)), name="density")
    return view.density(source, model, statistic, answer)


@dataclass(frozen=True)
class View:
    """A plane, or a line, in which rows are shown."""

    title: str
    plane: Plane
    deviations: Float64Array
    """(a,), standard deviations of the rows along the axes."""
    axes: list[str]
    """Label of each axis."""
    unit: str

    def statistic(self, source: RowSource, model: Model, bins: int) -> Points | Histogram:
        """Return what to ask of the rows."""
        n_rows = source.plan.n_rows
        if n_rows < FEW_ROWS and len(self.axes) == 2:
            return Points(self.plane)
        bins = min(bins, max(20, 2 * math.isqrt(n_rows)))
        layers, _ = layers_of(model.cluster_weights_)
        return Histogram(self.plane, *_window(source, self.plane, self.deviations), bins, layers)

    def density(
        self, source: RowSource, model: Model, statistic: Points | Histogram, answer: Any
    ) -> Density:
        """Return the rows and centers in this plane, given the answer of `statistic`."""
        centers = self.plane(drawn_centers(model))
        found = _placed(source, model, statistic, answer, centers, groups_of(model))
        return Density(
            title=self.title, n_rows=source.plan.n_rows, axes=self.axes, unit=self.unit, **found
        )


def _placed(
    source: RowSource,
    model: Model,
    statistic: Points | Histogram,
    answer: Any,
    centers: Float64Array,
    groups: Int64Array,
) -> dict[str, Any]:
    """Return the rows and the centers of a `Density` by the names of its fields."""
    found: dict[str, Any] = {
        "centers": centers,
        "groups": groups,
        "layers": layers_of(model.cluster_weights_)[1],
    }
    found |= dict.fromkeys(("points", "labels", "counts"))
    if isinstance(statistic, Points):
        both = np.concatenate([answer.coordinates, centers])
        found |= {"points": answer.coordinates, "labels": answer.labels, "outside": 0.0}
        return found | {"low": both.min(axis=0), "high": both.max(axis=0)}
    counts = statistic.counts(answer)
    outside = max(0.0, source.summary.weight - float(counts.sum()))
    counts, low, high = trim_empty_boxes(counts, statistic.low, statistic.high, centers)
    return found | {"counts": counts, "low": low, "high": high, "outside": outside}


def layers_of(weights: Float64Array) -> tuple[Int64Array, Int64Array]:
    """Return the layer of each cluster and of noise, (k + 1,), and the cluster of each layer, (c,).

    The heaviest clusters, up to `LAYERED`, have layers of their own, all other rows the last.
    """
    heaviest = np.argsort(-weights, kind="stable")[:LAYERED]
    layers = np.full(len(weights) + 1, len(heaviest))
    layers[heaviest] = np.arange(len(heaviest))
    return layers, np.append(heaviest, -1)


def groups_of(model: Model) -> Int64Array:
    """Return the cluster of each center that is drawn, (k,)."""
    if hasattr(model, "micro_centers_"):
        return model.groups_
    return np.arange(len(model.cluster_centers_))


def nearest_clusters(model: Model) -> Kernel:
    """Return the kernel that labels rows by the nearest center, -1 for noise."""
    centers, groups = Centers(drawn_centers(model)), groups_of(model)
    if hasattr(model, "micro_noise_"):
        groups = np.where(model.micro_noise_, -1, groups)
    return Predictions(centers, math.inf, groups=groups)


def column_view(source: RowSource, model: Model, names: list[str], columns: list[int]) -> View:
    """Return the view of one or two columns."""
    axes = [names[column] for column in columns]
    deviations = source.summary.deviation[columns]
    plane = Plane.of_columns(source.n_features, columns)
    return View(" and ".join(axes), plane, deviations, axes, model.description().units)


def covariance_of(source: RowSource) -> Float64Array:
    """Return the covariance of the columns, (d, d), in one pass."""
    d = source.n_features
    if d > MOST_COLUMNS:
        limit = f"principal directions are found for up to {MOST_COLUMNS:,}"
        raise InputError(f"the rows have {d:,} columns, and {limit}: give two columns to look at")
    sums: Float64Array = source.fold(Covariance(source.summary.mean), name="covariance")
    return sums / source.summary.weight


def principal_view(source: RowSource, model: Model, covariance: Float64Array) -> View:
    """Return the view in the two directions of largest variance, given the covariance, (d, d)."""
    values, vectors = np.linalg.eigh(covariance)
    values, directions = (
        np.maximum(values[[-1, -2]], 0.0),
        _with_positive_signs(vectors[:, [-1, -2]]),
    )
    shares = values / max(covariance.trace(), np.finfo(np.float64).tiny)
    axes = [
        f"principal direction {number}, {share:.0%} of the variance"
        for number, share in enumerate(shares, 1)
    ]
    plane, units = Plane(source.summary.mean, directions), model.description().units
    return View("Principal directions", plane, np.sqrt(values), axes, units)


def discriminant_view(source: RowSource, model: Model, covariance: Float64Array) -> View | None:
    """Return the view in the two directions that separate clusters best; `covariance` is (d, d).

    They are the first canonical variates (Rao 1948): the variance of the means of clusters over the
    variance within clusters is largest.  If there are two clusters, the second direction is, of
    those uncorrelated with the first within clusters, the one that explains most variance there.
    None if the clusters do not differ.
    """
    means, weights = cluster_means(model), model.cluster_weights_
    shares, mean = weights / weights.sum(), source.summary.mean
    apart = (means - mean) * np.sqrt(shares)[:, np.newaxis]
    between = apart.T @ apart
    ridge = RIDGE * covariance.trace() / len(covariance)
    if len(means) == 1 or not ridge > 0:
        return None
    within = covariance - between + ridge * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(within)
    values = np.maximum(values, ridge)
    whiten = vectors / np.sqrt(values)
    ratios, turned = np.linalg.eigh(whiten.T @ between @ whiten)
    if not ratios[-1] > RIDGE:
        return None
    first, second = turned[:, -1], turned[:, -2]
    if not ratios[-2] > RIDGE * ratios[-1]:
        others = np.eye(len(first)) - np.outer(first, first)
        second = np.linalg.eigh(others * values @ others)[1][:, -1]
    directions = _with_positive_signs(whiten @ np.column_stack([first, second]))
    variances = np.einsum("ia,ij,ja->a", directions, covariance, directions)
    deviations = np.sqrt(np.maximum(variances, 1.0))  # where columns depend on each other, it is 0
    axes = ["first direction that separates clusters", "second direction that separates clusters"]
    plane = Plane(mean, directions)
    return View("Clusters apart", plane, deviations, axes, "standard deviations within clusters")


def cluster_means(model: Model) -> Float64Array:
    """Return the centers of clusters, (k, d); if they have micro-clusters, the means of these.

    Noise does not count.
    """
    if not hasattr(model, "micro_centers_"):
        return centers_of(model, "a picture of rows")
    sums = np.zeros((len(model.cluster_weights_), model.micro_centers_.shape[1]))
    masses = np.zeros(len(sums))
    own, weights = model.groups_, np.where(model.micro_noise_, 0.0, model.micro_weights_)
    np.add.at(sums, own, weights[:, np.newaxis] * model.micro_centers_)
    np.add.at(masses, own, weights)
    return sums / masses[:, np.newaxis]


def _view(source: RowSource, model: Model, names: list[str], columns: list[int] | None) -> View:
    d = source.n_features
    if columns is None and d > 2:
        return principal_view(source, model, covariance_of(source))
    return column_view(source, model, names, list(range(d)) if columns is None else columns)


def _with_positive_signs(directions: Float64Array) -> Float64Array:
    """Return directions, (d, 2), whose largest entries are positive."""
    return directions * np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])


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
    return low, upper_ends(low, high)


def upper_ends(low: Float64Array, high: Float64Array) -> Float64Array:
    """Return `high`, (a,), or an end beyond `low`, (a,), if both are equal; low + 1 may be low."""
    return np.where(high > low, high, low + np.maximum(1.0, 1e-9 * np.abs(low)))


def trim_empty_boxes(
    counts: Float64Array, low: Float64Array, high: Float64Array, centers: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return counts and corners without empty boxes at the sides, unless a center lies there.

    `counts` are (c, b, b') or (c, b); `low` and `high` are corners, (a,), and `centers` (k, a).
    """
    bins, sides = counts.shape[1], counts.ndim - 1
    width = (high - low) / bins
    first, last = np.empty(sides, np.intp), np.empty(sides, np.intp)
    for side in range(sides):
        filled = np.asarray(counts.any(axis=tuple(set(range(sides + 1)) - {side + 1})))
        boxes = np.floor((centers[:, side] - low[side]) / width[side])
        filled[boxes[(boxes >= 0) & (boxes < bins)].astype(np.intp)] = True
        first[side], last[side] = filled.argmax(), bins - filled[::-1].argmax()
    kept = counts[(slice(None), *(slice(*ends) for ends in zip(first, last, strict=True)))]
    return kept, low + first * width, low + last * width


CHART_BINS = 200
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
    statistic: Points | Histogram = Points(plane)
    if n_rows >= FEW_ROWS:
        low, high = source.fold(Bounds(plane), name="bounds")
        clusters, _ = layers_of(model.cluster_weights_)
        statistic = Histogram(plane, low, upper_ends(low, high), CHART_BINS, clusters)
    (answer,) = source.fold(ByCluster(predict, (statistic,)), name="places")
    found = _placed(source, model, statistic, answer, centers, np.arange(len(centers)))
    kind: dict[str, Any] = {"unit": "degrees", "is_chart": True}
    return Density("Places", n_rows=n_rows, axes=["longitude", "latitude"], **kind, **found)


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
