"""The numbers that pictures are made of.  `plot` draws them."""

import math
import os
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.engine.history import MOVES, Record
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import checked_rows
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.graph_cut import as_graph
from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.plot_statistics import Adjacency, Covariance, Edge, Histogram, Plane
from dask_dpmeans.selection.tree import ClusterTree
from dask_dpmeans.sources import RowSource, Stored, as_source

# A fit


def _is_history(model: Any) -> bool:
    return isinstance(model, list) and all(isinstance(record, Record) for record in model)


class History(NamedTuple):
    """What each of s steps came to."""

    objectives: Float64Array
    """(s,), the objective J after each."""
    n_clusters: Int64Array
    """(s,), k after each."""
    changes: dict[str, Int64Array]
    """What changed clusters, (s,) counts by name: births, deaths and moves, those that there are."""


def history(model: Any) -> History:
    """What the steps of a fit came to.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    """
    records: list[Record] = model if _is_history(model) else _attribute(model, "history_", "steps")
    if not records:
        raise InputError("the history has no steps: fit first")
    columns = {field.name: np.array([getattr(each, field.name) for each in records]) for field in fields(Record)}
    changes = {name: columns[name] for name in ("births", "deaths", *MOVES) if columns[name].any()}
    return History(columns["objective"], columns["n_clusters"], changes)


# Clusters


class Dendrogram(NamedTuple):
    """A tree of clusters, laid out over those of its lowest level."""

    leaves: Int64Array
    """(k,), the clusters of the lowest level, so ordered that no two joins cross."""
    joins: list["Join"]
    """The lowest first."""


class Join(NamedTuple):
    """Clusters that become one."""

    height: float
    """The penalty at which they do."""
    places: Float64Array
    """(m,), of the parts, in the order of the leaves, whose places are 0 to k - 1."""
    heights: Float64Array
    """(m,), the penalties at which the parts came to be; 0 for clusters of the fit."""


def upper(tree: ClusterTree, most: int) -> ClusterTree:
    """The part of a tree above the lowest level with so many clusters at most, which become its leaves."""
    levels = [tree.leaves, *tree.levels]
    few = [level for level in levels if level.n_clusters <= most] or levels[-1:]
    members = np.unique(few[0].clusters, return_index=True)[1]  # one for each cluster of the lowest level
    leaves, *above = (level._replace(clusters=level.clusters[members]) for level in few)
    return tree._replace(leaves=leaves, levels=tuple(above))


def dendrogram(tree: ClusterTree) -> Dendrogram:
    """Where the clusters of a tree join."""
    rows = [level.clusters for level in (tree.leaves, *tree.levels)]
    leaves = np.lexsort(rows)
    places, heights = np.empty(len(leaves)), np.full(len(leaves), tree.leaves.penalty)
    places[leaves] = np.arange(len(leaves))
    joins = []
    for below, above in pairwise([tree.leaves, *tree.levels]):
        parents = np.empty(below.n_clusters, np.int32)
        parents[below.clusters] = above.clusters
        joined, raised = np.empty(above.n_clusters), np.empty(above.n_clusters)
        for cluster in range(above.n_clusters):
            parts = np.flatnonzero(parents == cluster)
            parts = parts[np.argsort(places[parts])]
            joined[cluster], raised[cluster] = places[parts].mean(), heights[parts].max()
            if len(parts) > 1:
                raised[cluster] = above.penalty
                joins.append(Join(above.penalty, places[parts], heights[parts]))
        places, heights = joined, raised
    return Dendrogram(leaves, joins)


class Sizes(NamedTuple):
    """How large k clusters are, the heaviest first."""

    clusters: Int64Array
    """(k,), their numbers."""
    weights: Float64Array
    """(k,), in `unit`."""
    radii: Float64Array
    """(k,), the root of the mean squared distance to the center, by weight, in units of the fit; of a graph instead
    what each cluster adds to the cut."""
    limit: float | None
    """The radius that the penalty stands for, where it is read as one."""
    unit: str
    """Of the weights."""
    cut: bool
    """Whether `radii` are parts of a cut."""


def sizes(model: Any) -> Sizes:
    """Weights and root-mean-square radii of a fitted model's clusters."""
    inertias = _attribute(model, "cluster_inertias_", "squared errors of its clusters")
    weights = model.cluster_weights_
    order = np.argsort(-weights, kind="stable")
    words: Description = model.description()
    radii = inertias if words.radii_are_cuts else np.sqrt(inertias / weights)
    unit = "sum over rows" if words.row == "row" else f"{words.weight_unit}s"
    return Sizes(order, weights[order], radii[order], words.radius, unit, words.radii_are_cuts)


class Profile(NamedTuple):
    """In which features c clusters differ from the rest: f of these."""

    scores: Float64Array
    """(c, f), differences of centers from the mean of all rows, in standard deviations of the centers, by weight."""
    clusters: Int64Array
    """(c,), numbers, ascending."""
    features: list[str]
    """(f,), names, in the order of the columns."""
    clusters_left_out: Int64Array
    """Those that differ least, ascending."""
    features_left_out: list[str]
    """Those in which centers differ least, in the units of the fit."""


def profile(
    model: Any, feature_names: Sequence[str] | None = None, *, max_features: int = 40, max_clusters: int = 40
) -> Profile:
    """z-scores of centers: (center - mean) / standard deviation, both of all k centers, by weight.

    A score of 2 in a feature says that the center lies two standard deviations of the centers above their mean, which
    is that of the rows.  Where there are more than `max_features` features those remain in which centers vary most, in
    the units of the fit (which are those of the squared error); of more than `max_clusters` clusters those with the
    largest weight times sum of squared scores.

    Parameters
    ----------
    model : a fitted estimator with `cluster_centers_`
    feature_names : (d,) str, optional
        By default the columns of the DataFrame that was fitted, or numbers.
    max_features, max_clusters : int >= 1

    Returns
    -------
    Profile
    """
    max_features = checks.integer("max_features", max_features)
    max_clusters = checks.integer("max_clusters", max_clusters)
    centers, weights = _centers(model, "a profile"), model.cluster_weights_
    names = _names(model, feature_names)
    share = weights / weights.sum()
    differences = centers - share @ centers
    variances = share @ differences**2
    deviations = np.sqrt(variances)
    apart = deviations > 1e-12 * np.abs(centers).max(axis=0)  # what rounding leaves of equal centers is nothing
    scores = np.divide(differences, deviations, out=np.zeros_like(differences), where=apart)
    clusters = _greatest(weights * (scores**2).sum(axis=1), max_clusters)
    columns = _greatest(variances, max_features)
    return Profile(
        scores[np.ix_(clusters, columns)],
        clusters,
        [names[place] for place in columns],
        np.setdiff1d(np.arange(len(centers)), clusters),
        [names[place] for place in np.setdiff1d(np.arange(len(names)), columns)],
    )


class Shares(NamedTuple):
    """Which data sets use which global centers: l lines by c columns."""

    shares: Float64Array
    """(l, c), share of the weight of a data set, or the mean of those of a line's data sets."""
    sets: list[Int64Array]
    """(l,), the data sets of each line."""
    centers: Int64Array
    """Numbers of the global centers, the heaviest first."""
    centers_together: Int64Array
    """Numbers of the lighter ones, whose shares are added up in one more column, the last."""


def sharing(model: HDPMeans, *, max_lines: int = 200, max_centers: int = 60) -> Shares:
    """The shares of the global centers in the weight of each data set of a fitted `HDPMeans`.

    Data sets that are alike come together: they are ordered by the center that has most of their weight, heaviest
    center first, and by its share.  More than `max_lines` are drawn together, neighbors in that order in one line;
    empty data sets are left out.
    """
    if "sharing" not in model.description().pictures:
        raise InputError(f"data sets share clusters in HDPMeans, got {type(model).__name__}")
    max_lines, max_centers = checks.integer("max_lines", max_lines), checks.integer("max_centers", max_centers)
    check_is_fitted(model)
    weights = model.local_clusters_
    totals = weights.sum(axis=1)
    order = np.argsort(-model.cluster_weights_, kind="stable")
    weights = weights[:, order].tocsr()
    shown, together = order[:max_centers], order[max_centers:]
    some = np.flatnonzero(totals > 0)
    chief, share = _chief(weights, some, totals)
    some = some[np.lexsort((-share, chief))]
    lines = np.array_split(some, min(max_lines, len(some)))
    means = np.vstack([(weights[sets] / totals[sets, np.newaxis]).mean(axis=0) for sets in lines])
    shares = means[:, : len(shown)]
    if len(together):
        shares = np.column_stack([shares, means[:, len(shown) :].sum(axis=1)])
    return Shares(shares, lines, shown, together)


def _chief(weights: csr_array, sets: Int64Array, totals: Float64Array) -> tuple[IndexArray, Float64Array]:
    """The center that has most of each set's weight, and its share."""
    largest = weights.max(axis=1).toarray()[sets]
    return np.asarray(weights.argmax(axis=1)).ravel()[sets], largest / totals[sets]


# Rows


FEW_ROWS = 10_000
"""Fewer are drawn as points."""
BINS, MOST_BINS = 400, 4000
"""Boxes along each side of a picture of many rows, and the most: 16 million numbers for each task."""
REACH = 4.0
"""A window ends so many standard deviations from the mean, or where the rows do."""
MOST_COLUMNS = 2048
"""The products of so many columns, 32 MB, are made for principal directions."""


class DensityOptions(Stored, total=False):
    """What else `plot.density` may be told, as `density` has it."""

    feature_names: Sequence[str] | None
    sample_weight: Any
    bins: int


class Density(NamedTuple):
    """Rows and centers in a plane."""

    centers: Float64Array
    """(k, 2), or (k, 1) where there is one column."""
    points: Float64Array | None
    """(n, 2), where there are few rows."""
    counts: Float64Array | None
    """(b, c), or (b,), the weight of the rows in each box, where there are many."""
    low: Float64Array
    """(2,) or (1,), the corner of the first box, or of all points and centers."""
    high: Float64Array
    """The corner opposite."""
    outside: float
    """The weight of the rows that lie beyond these boxes."""
    n_rows: int
    axes: list[str]
    """What lies along each axis."""
    unit: str
    """In what units."""


def density(
    X: Any,
    model: Any,
    columns: Sequence[int | str] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    sample_weight: Any = None,
    bins: int = BINS,
    **where: Unpack[Stored],
) -> Density:
    """Where rows and centers lie in a plane, as the fit sees them.

    Up to three passes over the rows: one that checks them, one for the principal directions where no columns are given,
    and one that counts; one more where columns were scaled and rows then brought to unit length.  Fewer than 10,000
    rows are points, but for one column; of more the weight in each of `bins` x `bins` boxes is summed up, block by
    block, in a window that ends 4 standard deviations from the mean.  The answer is the same, to the byte, for any
    chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows as the model's `fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
        Or what `rows_of` made of them.
    model : a fitted estimator with `cluster_centers_`
    columns : two (or one) numbers or names of columns of X, optional
        By default the two directions of the greatest variance of the rows.
    feature_names : (d,) str, optional
        Of the columns that the fit used.
    sample_weight : (n,), optional
    bins : int >= 1
        At most: there are no more along a side than twice the root of the number of rows.
    **where : client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    Density
    """
    bins = checks.integer("bins", bins)
    if bins > MOST_BINS:
        raise InputError(f"bins must be an integer <= {MOST_BINS:,}, got {bins:,}: a picture has no more points")
    centers = _centers(model, "a picture of rows")
    names = _names(model, feature_names)
    source = X if isinstance(X, RowSource) else rows_of(X, model, sample_weight, **where)
    plane, spread, axes = _look(source, names, _places(model, names, columns))
    there, n_rows = plane(centers), source.plan.n_rows
    if n_rows < FEW_ROWS and len(axes) == 2:
        points = plane(source.fold(Gather(), name="gather").rows)
        both = np.concatenate([points, there])
        return Density(
            there, points, None, both.min(axis=0), both.max(axis=0), 0.0, n_rows, axes, model.description().units
        )
    low, high = _window(source, plane, spread)
    bins = min(bins, max(20, 2 * math.isqrt(n_rows)))
    boxes = Histogram(plane, low, high, bins)
    counts = boxes.counts(source.fold(boxes, name="density"))
    outside = max(0.0, source.summary.weight - float(counts.sum()))
    return Density(there, None, *_trimmed(counts, low, high, there), outside, n_rows, axes, model.description().units)


def edge(source: RowSource, predict: Any, penalty: float) -> tuple[int, int]:
    """How many rows lie near the edge of the radius (squared distance above 0.9 of the penalty), and how many beyond.

    Rows that weigh less than 1 may lie anywhere, and are not counted.

    Parameters
    ----------
    source : the rows
    predict : the kernel of a map, as the `predictor` of a `MethodSpec` gives it
    penalty : the squared radius
    """
    near, beyond = source.fold(Edge(predict, penalty), name="edge").tolist()
    return near, beyond


def rows_of(X: Any, model: Any, sample_weight: Any = None, **where: Unpack[Stored]) -> RowSource:
    """Rows as the fit saw its own: one pass; parameters as `density` has them.

    Where a `SpectralDPMeans` can map no new rows, these are the rows of its embedding, and X is not read.
    """
    rows = model.description().stored_rows
    if rows is not None:
        return as_source(rows, **where)
    stored = isinstance(X, str | os.PathLike)
    source = as_source(
        X if stored else checked_rows(model, X, reset=False),
        sample_weight,
        column_names=tuple(getattr(model, "feature_names_in_", ())) if stored else None,
        columns=model.feature_columns_,
        scale=model.feature_scale_,
        features=model.features_,
        **where,
    )
    if source.stored_columns != model.n_features_in_:
        raise InputError(f"X has {source.stored_columns} columns, the fit had {model.n_features_in_}")
    return source


def _look(source: RowSource, names: list[str], places: list[int] | None) -> tuple[Plane, Float64Array, list[str]]:
    """The plane to look at, standard deviations along its axes, and what lies along these."""
    d = source.n_features
    if places is None and d > 2:
        return _principal(source)
    places = list(range(d)) if places is None else places
    plane = Plane(np.zeros(d), np.eye(d)[:, places])
    return plane, source.summary.deviation[places], [names[place] for place in places]


def _principal(source: RowSource) -> tuple[Plane, Float64Array, list[str]]:
    """The same for the two directions of the greatest variance: one pass."""
    d, mean = source.n_features, source.summary.mean
    if d > MOST_COLUMNS:
        raise InputError(
            f"the rows have {d:,} columns, and principal directions are found of up to {MOST_COLUMNS:,}: give two "
            "columns to look at"
        )
    values, vectors = np.linalg.eigh(source.fold(Covariance(mean), name="covariance"))
    values, directions = np.maximum(values[[-1, -2]], 0.0), vectors[:, [-1, -2]]
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    shares = values / max(source.summary.squares.sum(), np.finfo(np.float64).tiny)
    axes = [f"principal direction {number}, {share:.0%} of the variance" for number, share in enumerate(shares, 1)]
    return Plane(mean, directions * signs), np.sqrt(values / source.summary.weight), axes


def _window(source: RowSource, plane: Plane, spread: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Two corners: so many deviations from the mean, or where the rows must end."""
    found, origin = source.summary, plane.origin @ plane.directions
    ends = plane.directions * found.lowest[:, np.newaxis], plane.directions * found.highest[:, np.newaxis]
    mean = plane(found.mean[np.newaxis])[0]
    low = np.maximum(mean - REACH * spread, np.minimum(*ends).sum(axis=0) - origin)
    high = np.minimum(mean + REACH * spread, np.maximum(*ends).sum(axis=0) - origin)
    return low, np.where(high > low, high, low + 1.0)


def _trimmed(
    counts: Float64Array, low: Float64Array, high: Float64Array, centers: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Counts and corners without the empty boxes at the sides, as long as no center lies there."""
    bins, sides = len(counts), counts.ndim
    width = (high - low) / bins
    held = [np.atleast_1d(counts.any(axis=tuple(set(range(sides)) - {side}))) for side in range(sides)]
    for side, boxes in enumerate(held):
        places = np.floor((centers[:, side] - low[side]) / width[side])
        boxes[places[(places >= 0) & (places < bins)].astype(np.intp)] = True
    first = np.array([boxes.argmax() for boxes in held])
    last = np.array([bins - boxes[::-1].argmax() for boxes in held])
    kept = counts[tuple(slice(*ends) for ends in zip(first, last, strict=True))]
    return kept, low + first * width, low + last * width


# Graphs


MOST_NODES, MOST_LINKS = 500, 20_000
"""Of a graph that can be drawn."""


class Drawable(NamedTuple):
    """A small graph and its clusters."""

    adjacency: csr_array
    """(n, n)."""
    labels: Int64Array
    """(n,); -1 for nodes of no cluster."""


def drawable(graph: Any, labels: Any, **where: Unpack[Stored]) -> Drawable:
    """A graph that is small enough to draw, with the clusters of its nodes.

    Parameters
    ----------
    graph : as `GraphCutDPMeans.fit` takes it
    labels : (n,) integers, NumPy or Dask; -1 for nodes of no cluster
    **where : client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Raises
    ------
    InputError
        More than 500 nodes or 20,000 links, or labels that are not one a node.
    """
    source = graph if isinstance(graph, RowSource) else as_source(as_graph(graph), sparse=True, **where)
    n = source.plan.n_rows
    if n > MOST_NODES:
        raise InputError(f"the graph has {n:,} nodes, and up to {MOST_NODES:,} can be drawn: {SMALLER}")
    adjacency = source.fold(Adjacency(), name="links")
    if adjacency.nnz > 2 * MOST_LINKS:
        links = f"{adjacency.nnz // 2:,} links, and up to {MOST_LINKS:,} can be drawn"
        raise InputError(f"the graph has {links}: {SMALLER}")
    try:
        clusters = np.asarray(labels)
    except ValueError as error:
        raise InputError(f"labels must be {n:,} integers, one a node: {error}") from error
    if clusters.shape != (n,) or clusters.dtype.kind not in "iu":
        raise InputError(f"labels must be {n:,} integers, one a node, got {clusters.dtype} of shape {clusters.shape}")
    return Drawable(adjacency, clusters.astype(np.int64))


SMALLER = "take the nodes of a few clusters, graph[nodes][:, nodes]"


# What a model holds


def feature_names(model: Any) -> list[str]:
    """What the columns of the centers are called: as in the table that was fitted, or by number."""
    columns, kind = columns_of(model), model.description().center_columns
    if columns is None:
        return [f"{kind} {place}" for place in range(model.cluster_centers_.shape[1])]
    given = getattr(model, "feature_names_in_", None)
    return [f"column {column}" if given is None else str(given[column]) for column in columns]


def columns_of(model: Any) -> list[int] | None:
    """Which columns of the rows the columns of the centers are; None where these are of something else."""
    if model.description().center_columns is not None:
        return None
    return list(range(model.n_features_in_)) if model.feature_columns_ is None else list(model.feature_columns_)


def _names(model: Any, given: Sequence[str] | None) -> list[str]:
    usual = feature_names(model)
    if given is not None and (isinstance(given, str | bytes) or np.ndim(given) != 1):
        raise InputError(f"feature_names must be a list of names, got {checks.shown(given)}")
    if given is not None and len(given) != len(usual):
        raise InputError(f"feature_names must be {len(usual):,}, one a column of the centers, got {len(given):,}")
    return usual if given is None else [str(name) for name in given]


def _places(model: Any, names: list[str], columns: Sequence[int | str] | None) -> list[int] | None:
    """Which columns of the centers are meant."""
    if columns is None:
        return None
    if isinstance(columns, str | bytes) or not isinstance(columns, Sequence | np.ndarray) or np.ndim(columns) != 1:
        raise InputError(f"columns must be one or two different columns of the fit, got {checks.shown(columns)}")
    numbers = columns_of(model) or list(range(len(names)))
    some = [names.index(each) if each in names else numbers.index(each) if each in numbers else -1 for each in columns]
    if len(some) not in (1, 2) or -1 in some or len(set(some)) < len(some):
        raise InputError(f"columns must be one or two different columns of the fit, got {checks.shown(columns)}")
    return some


def _centers(model: Any, what: str) -> Float64Array:
    centers: Float64Array = _attribute(model, "cluster_centers_", f"centers among the rows, which {what} is of")
    return centers


def _attribute(model: Any, name: str, what: str) -> Any:
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    if not hasattr(model, name):
        raise InputError(f"{type(model).__name__} has no {what}: it cannot be shown in this way")
    return getattr(model, name)


def _greatest(values: Float64Array, most: int) -> Int64Array:
    """The numbers of the greatest values, ascending; the lower number among equals."""
    return np.sort(np.argsort(-values, kind="stable")[:most])
