"""Maps of the rows by cluster and portraits of the clusters, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.figures.data import rows as row_views
from dask_dpmeans.figures.data.columns import Model, columns_of, drawn_centers
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.boxes import PairHistograms
from dask_dpmeans.kernels.cluster_statistics import (
    ByCluster,
    Doubts,
    Edge,
    ExtremeRows,
    Extremes,
    FeatureHistograms,
    FeatureSums,
    NearestTwo,
    Statistic,
)
from dask_dpmeans.kernels.keyed_sums import UseSums
from dask_dpmeans.sources import RowSource

MOST_PORTRAITS = 60
"""The heaviest clusters that have a portrait."""
MOST_FEATURES, FEATURE_BINS, FEATURE_DEVIATIONS = 4, 24, 3.0
"""Features of a portrait; bins of their histograms, and their ends, in standard deviations."""
MOST_PAIRED, PAIR_BINS, PAIR_DEVIATIONS = 6, 64, 4.0
"""Columns that are shown in pairs; boxes along a side of such a map, and its ends."""
MOST_NEIGHBORS, MOST_EXEMPLARS = 3, 3
"""Other clusters and rows, of each kind, that a portrait names."""


class Feature(NamedTuple):
    """A feature in which a cluster differs from all rows."""

    name: str
    score: float
    """Mean of the cluster minus mean of all rows, in standard deviations of all rows."""
    mean: float
    """Mean of the cluster, in units of the data."""
    low: float
    """Lower end of the first bin; that bin also holds what lies below."""
    high: float
    """Upper end of the last bin; that bin also holds what lies above."""
    counts: Float64Array
    """(bins,), weight of the rows of the cluster."""
    overall: Float64Array
    """(bins,), weight of all rows."""


class Part(NamedTuple):
    """The mean of a cluster in a column of numbers, or the share of one category."""

    label: str
    """The category; empty for numbers."""
    own: float
    overall: float
    """Of the cluster and of all rows; in units of the data, or shares."""
    left: float
    width: float
    """Position of a bar, up to 1: from the mean of all rows in the middle, or from a share of 0."""


class ColumnMean(NamedTuple):
    """A column, of numbers or of categories, in which a cluster differs from all rows."""

    name: str
    parts: list[Part]
    """One for numbers; the most frequent categories."""


class Exemplar(NamedTuple):
    """A row of a cluster."""

    name: str
    """Its number, or its name in the index of a data frame."""
    distance: float
    """To the nearest center, in units of the fit."""


class Neighbor(NamedTuple):
    """Another cluster near a cluster."""

    cluster: int
    distance: float
    """Between centers, or between the nearest micro-centers, in units of the fit.  With
    `Overview.divergences`, what a row of the cluster costs more at the other center, on average."""
    doubt: float | None
    """Share of the rows that are in doubt, and whose second cluster is this; None if not known."""


class Portrait(NamedTuple):
    """One cluster."""

    cluster: int
    weight: float
    share: float
    """Of the weight of all clusters: noise has none."""
    radius: float
    """Root-mean-square distance of its rows to the nearest center, in units of the fit.  With
    `Overview.divergences`, their mean cost."""
    stability: float | None
    doubt: float | None
    """Share of its rows that are less than three times as probable as in the second cluster."""
    features: list[Feature]
    """Those in which it differs most, the greatest score first."""
    neighbors: list[Neighbor]
    """The nearest first."""
    nearest: list[Exemplar]
    farthest: list[Exemplar]
    columns: Sequence[ColumnMean] = ()
    """With `Overview.divergences`, instead of features: the column in which it differs most first."""


class Overview(NamedTuple):
    """The rows and the clusters of a fit."""

    maps: list[row_views.Density]
    """Of rows by cluster; the best first."""
    pairs: list[row_views.Density]
    """Maps of pairs of up to six columns, i < j; none if there are one or two columns.  Rows
    beyond are in the boxes at the sides."""
    columns: list[str]
    """The names of these columns."""
    clusters: list[Portrait]
    """The heaviest first, at most 60."""
    near: int
    """Number of rows of weight >= 1 whose cost exceeds 0.9 of the penalty."""
    beyond: int
    """Number of rows of weight >= 1 whose cost exceeds the penalty."""
    doubt: float | None
    """Share of the weight of rows in doubt; None if the method has no probabilities."""
    divergences: bool = False
    """Whether rows cost divergences of columns, not squared distances; there are no maps then."""


def overview(
    source: RowSource,
    model: Model,
    predict: Kernel,
    penalty: float,
    names: list[str],
    *,
    columns: list[int] | None = None,
    index: Sequence[object] | None = None,
) -> Overview:
    """Return maps of the rows and portraits of the clusters, in up to two passes.

    The result is the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    source : the rows, as the fit saw them
    model : a fitted estimator with centers or micro-centers
    predict : kernel that labels rows, as a `MethodSpec` returns it; with `NearestTwo` the doubts
        are known
    penalty : the squared radius, for the rows near it and beyond
    names : (d,), names of the columns of the centers
    columns : numbers of two columns of the centers, for a first map
    index : (n,), names of the rows; the default is their numbers
    """
    views = _views(source, model, names, columns)
    maps = [view.statistic(source, model, row_views.BINS) for view in views]
    plan, pairs = _Plan.of(source, model), _pairs_to_map(source, model)
    others: list[Statistic] = [plan.histograms, plan.rows, Edge(penalty), pairs]
    if isinstance(predict, NearestTwo):
        others.append(Doubts(model.n_clusters_))
    statistics = (*maps, *others)
    answers = source.fold(ByCluster(predict, statistics), name="overview")
    drawn = [
        view.density(source, model, statistic, answer)
        for view, statistic, answer in zip(views, maps, answers, strict=False)
    ]
    histograms, rows, edge, counts, *doubts = answers[len(maps) :]
    found = _Found(plan, histograms, rows, doubts[0] if doubts else None, index)
    near, beyond = edge.tolist()
    return Overview(
        drawn,
        _pairs(pairs, counts, source, model, names),
        [names[column] for column in pairs.columns],
        [found.portrait(source, model, names, slot) for slot in range(len(plan.clusters))],
        near,
        beyond,
        None if found.doubts is None else float(found.doubts.values.sum() / source.summary.weight),
    )


def _views(
    source: RowSource, model: Model, names: list[str], columns: list[int] | None
) -> list[row_views.View]:
    d, maps = source.n_features, []
    if columns is not None:
        maps.append(row_views.column_view(source, model, names, columns))
    if 2 < d <= row_views.MOST_COLUMNS:
        covariance = row_views.covariance_of(source)
        maps += [each] if (each := row_views.discriminant_view(source, model, covariance)) else []
        maps.append(row_views.principal_view(source, model, covariance))
    if not maps:
        maps.append(
            row_views.column_view(source, model, names, sorted(_separating(source, model)[:2]))
        )
    return maps


def _pairs_to_map(source: RowSource, model: Model) -> PairHistograms:
    """Return what to ask for the maps of pairs of columns."""
    columns = np.sort(_separating(source, model)[:MOST_PAIRED]).astype(np.intp)
    if source.n_features <= 2:
        columns = columns[:0]
    layers, _ = row_views.layers_of(model.cluster_weights_)
    return PairHistograms(columns, *_ends(source, columns, PAIR_DEVIATIONS), PAIR_BINS, layers)


def _pairs(
    asked: PairHistograms, found: Any, source: RowSource, model: Model, names: list[str]
) -> list[row_views.Density]:
    counts, (_, layers) = asked.counts(found), row_views.layers_of(model.cluster_weights_)
    centers, groups = drawn_centers(model), row_views.groups_of(model)
    maps = []
    for pair, places in zip(counts, combinations(range(len(asked.columns)), 2), strict=True):
        own, axes = asked.columns[list(places)], list(places)
        labels = [names[column] for column in own]
        where = centers[:, own], groups, None, None, pair, layers, asked.low[axes], asked.high[axes]
        title, unit = " and ".join(labels), model.description().units
        maps.append(row_views.Density(title, *where, 0.0, source.plan.n_rows, labels, unit))
    return maps


def _ends(
    source: RowSource, columns: IndexArray, deviations: float
) -> tuple[Float64Array, Float64Array]:
    """Return the ends of histograms of columns: some deviations from the mean, or the last row."""
    found, reach = source.summary, deviations * source.summary.deviation
    low = np.maximum(found.lowest, found.mean - reach)[columns]
    high = np.minimum(found.highest, found.mean + reach)[columns]
    return low, row_views.upper_ends(low, high)


def _separating(source: RowSource, model: Model) -> list[int]:
    """Return the d columns, the ones that differ most between clusters first."""
    shares = model.cluster_weights_ / model.cluster_weights_.sum()
    order = np.argsort(-(shares @ _scores(source, model) ** 2), kind="stable")
    return order.tolist()


def _scores(source: RowSource, model: Model) -> Float64Array:
    """Return means of clusters minus the mean of all rows, in standard deviations, (k, d)."""
    deviation = source.summary.deviation
    differences = row_views.cluster_means(model) - source.summary.mean
    return np.divide(differences, deviation, out=np.zeros_like(differences), where=deviation > 0)


@dataclass(frozen=True)
class _Plan:
    """The clusters with portraits, and what they ask of the rows."""

    clusters: Int64Array
    """(c,)."""
    means: Float64Array
    """(c, d)."""
    scores: Float64Array
    """(c, m), scores of their features."""
    histograms: FeatureHistograms
    rows: ExtremeRows

    @classmethod
    def of(cls, source: RowSource, model: Model) -> "_Plan":
        clusters = np.argsort(-model.cluster_weights_, kind="stable")[:MOST_PORTRAITS]
        slots = np.full(model.n_clusters_ + 1, len(clusters))
        slots[clusters] = np.arange(len(clusters))
        scores = _scores(source, model)[clusters]
        best = np.argsort(-np.abs(scores), axis=1, kind="stable")[:, :MOST_FEATURES]
        features, places = np.unique(best, return_inverse=True)
        ends, chosen = _ends(source, features, FEATURE_DEVIATIONS), places.reshape(best.shape)
        histograms = FeatureHistograms(slots, features, chosen, *ends, FEATURE_BINS)
        rows = ExtremeRows(slots, len(clusters), MOST_EXEMPLARS)
        means = row_views.cluster_means(model)[clusters]
        return cls(clusters, means, np.take_along_axis(scores, best, axis=1), histograms, rows)


@dataclass(frozen=True)
class _Found:
    """The answers about clusters."""

    plan: _Plan
    histograms: FeatureSums
    rows: Extremes
    doubts: UseSums | None
    index: Sequence[object] | None

    def portrait(self, source: RowSource, model: Model, names: list[str], slot: int) -> Portrait:
        """Return the portrait of a cluster."""
        cluster = int(self.plan.clusters[slot])
        weight = float(model.cluster_weights_[cluster])
        seen = float(self.histograms.counts[slot, 0].sum())  # differs if weights were lost
        stability = getattr(model, "cluster_stability_", None)
        doubts = self._doubts(cluster, model.n_clusters_)
        if doubts is not None and seen > 0:
            doubts /= seen
        return Portrait(
            cluster,
            weight,
            weight / float(model.cluster_weights_.sum()),
            _radius(model, cluster),
            None if stability is None else float(stability[cluster]),
            None if doubts is None else float(doubts.sum()),
            self._features(source, model, names, slot),
            _neighbors(model, cluster, doubts),
            self._exemplars(self.rows.nearest[slot], self.rows.near[slot]),
            self._exemplars(self.rows.farthest[slot], self.rows.far[slot]),
        )

    def _doubts(self, cluster: int, k: int) -> Float64Array | None:
        """Return the weight of the rows of a cluster that are in doubt, by second cluster, (k,)."""
        if self.doubts is None:
            return None
        first, last = np.searchsorted(self.doubts.keys, (cluster * k, (cluster + 1) * k))
        found = np.zeros(k)
        found[self.doubts.keys[first:last] - cluster * k] = self.doubts.values[first:last]
        return found

    def _features(
        self, source: RowSource, model: Model, names: list[str], slot: int
    ) -> list[Feature]:
        """Return the features in which the cluster of a slot differs most, with their histograms."""
        histograms, scores = self.plan.histograms, self.plan.scores[slot]
        means, found = self.plan.means[slot], []
        scale = np.ones(source.n_features)
        if columns_of(model) is not None and model.feature_scale_ is not None:
            scale = model.feature_scale_
        for place, chosen in enumerate(histograms.chosen[slot]):
            feature = int(histograms.features[chosen])
            mean, low, high = scale[feature] * np.array(
                [means[feature], histograms.low[chosen], histograms.high[chosen]]
            )
            counts = self.histograms.counts[slot, place], self.histograms.overall[chosen]
            found.append(
                Feature(
                    names[feature],
                    float(scores[place]),
                    float(mean),
                    float(low),
                    float(high),
                    *counts,
                )
            )
        return found

    def _exemplars(self, rows: Int64Array, squared: Float64Array) -> list[Exemplar]:
        pairs = zip(rows.tolist(), np.sqrt(np.abs(squared)).tolist(), strict=True)
        names = self.index
        return [
            Exemplar(str(row if names is None else names[row]), distance)
            for row, distance in pairs
            if row >= 0
        ]


def _radius(model: Model, cluster: int) -> float:
    """Return the root-mean-square distance of the rows of a cluster to their nearest center."""
    if hasattr(model, "micro_centers_"):
        own = (model.groups_ == cluster) & ~model.micro_noise_
        inertia, weight = model.micro_inertias_[own].sum(), model.micro_weights_[own].sum()
    else:
        inertia, weight = model.cluster_inertias_[cluster], model.cluster_weights_[cluster]
    return float(np.sqrt(inertia / weight))


def _neighbors(model: Model, cluster: int, doubts: Float64Array | None) -> list[Neighbor]:
    """Return the nearest other clusters, and the one with most rows in doubt.

    `doubts`, (k,), are shares of the rows, by second cluster.
    """
    if model.n_clusters_ == 1:
        return []
    groups = row_views.groups_of(model)
    centers: Any = getattr(model, "micro_centers_", None)
    if centers is None:
        centers = model.cluster_centers_
    distances = np.full(model.n_clusters_, np.inf)
    to_others = cdist(centers[groups == cluster], centers).min(axis=0)
    np.minimum.at(distances, groups, to_others)
    distances[cluster] = np.inf
    order = np.argsort(distances, kind="stable")[:MOST_NEIGHBORS]
    if doubts is not None and doubts.max() > 0 and doubts.argmax() not in order:
        order[-1] = doubts.argmax()
    return [
        Neighbor(int(each), float(distances[each]), None if doubts is None else float(doubts[each]))
        for each in order
        if np.isfinite(distances[each])
    ]
