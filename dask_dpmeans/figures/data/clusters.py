"""The steps of a fit, its clusters, their use by data sets, and why there are so many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.engine.history import MOVES, Record
from dask_dpmeans.engine.history import History as StepHistory
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.description import Description, description_of
from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.figures.data.columns import Model, attribute, centers_of, checked_names
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice, score


class History(NamedTuple):
    """Results of the s steps of a fit."""

    objectives: Float64Array
    """(s,), objective J after each step."""
    n_clusters: Int64Array
    """(s,), number of clusters k after each step."""
    changes: dict[str, Int64Array]
    """(s,) counts of births, deaths and moves, by name; kinds that never happened are left out."""


def history(model: Model) -> History:
    """Return the results of the steps of a fit.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    """
    if isinstance(model, list) and all(isinstance(record, Record) for record in model):
        records = model
    else:
        records = attribute(model, "history_", "steps")
    if not records:
        raise InputError("the history has no steps: fit first")
    columns = StepHistory(records).columns()
    changes = {name: columns[name] for name in ("births", "deaths", *MOVES) if columns[name].any()}
    return History(columns["objective"], columns["n_clusters"], changes)


class Sizes(NamedTuple):
    """Sizes of k clusters, the heaviest first."""

    clusters: Int64Array
    """(k,), cluster numbers."""
    weights: Float64Array
    """(k,), in `unit`."""
    radii: Float64Array
    """(k,), root-mean-square distance to the center, by weight, in units of the fit; the mean
    divergence, if costs are no squared distances; for a graph, the part of the cut."""
    limit: float | None
    """Radius of the penalty; None if the penalty is a price."""
    unit: str
    """Unit of the weights."""
    cut: bool
    """Whether `radii` are parts of a cut."""


def sizes(model: Model) -> Sizes:
    """Return the weights and root-mean-square radii of the clusters of a fitted model."""
    inertias = attribute(model, "cluster_inertias_", "squared errors of its clusters")
    weights = model.cluster_weights_
    order = np.argsort(-weights, kind="stable")
    words: Description = model.description()
    radii = inertias
    if not words.radii_are_cuts:
        radii = np.sqrt(inertias / weights) if words.squares else inertias / weights
    unit = "sum over rows" if words.row == "row" else f"{words.weight_unit}s"
    return Sizes(order, weights[order], radii[order], words.radius, unit, words.radii_are_cuts)


class Profile(NamedTuple):
    """Scores of c clusters in the f features in which centers differ most."""

    scores: Float64Array
    """(c, f), center minus mean of all rows, in standard deviations of the centers, by weight."""
    clusters: Int64Array
    """(c,), cluster numbers, rising."""
    features: list[str]
    """(f,), names, in the order of the columns."""
    clusters_left_out: Int64Array
    """Numbers of the clusters that differ least, rising."""
    features_left_out: list[str]
    """Names of the features in which centers differ least, in the units of the fit."""


def profile(
    model: Model,
    feature_names: Sequence[str] | None = None,
    *,
    max_features: int = 40,
    max_clusters: int = 40,
) -> Profile:
    """Return z-scores of the centers: (center - mean) / standard deviation over centers, by weight.

    A score of 2 in a feature means: the center is two standard deviations of the centers above the
    mean of all rows.  If there are more than `max_features` features, the ones with the largest
    variance of the centers are kept, in the units of the fit.  If there are more than
    `max_clusters` clusters, the ones with the largest weight times sum of squared scores are kept.

    Parameters
    ----------
    model : a fitted estimator with `cluster_centers_`
    feature_names : (d,) str, optional
        The default is the column names of the fitted DataFrame, or numbers.
    max_features, max_clusters : int >= 1

    Returns
    -------
    Profile
    """
    max_features = checks.integer("max_features", max_features)
    max_clusters = checks.integer("max_clusters", max_clusters)
    centers, weights = centers_of(model, "a profile"), model.cluster_weights_
    names = checked_names(model, feature_names)
    share = weights / weights.sum()
    differences = centers - share @ centers
    variances = share @ differences**2
    deviations = np.sqrt(variances)
    # Equal centers differ by rounding only.
    apart = deviations > 1e-12 * np.abs(centers).max(axis=0)
    scores = np.divide(differences, deviations, out=np.zeros_like(differences), where=apart)
    clusters = _largest(weights * (scores**2).sum(axis=1), max_clusters)
    columns = _largest(variances, max_features)
    return Profile(
        scores[np.ix_(clusters, columns)],
        clusters,
        [names[column] for column in columns],
        np.setdiff1d(np.arange(len(centers)), clusters),
        [names[column] for column in np.setdiff1d(np.arange(len(names)), columns)],
    )


def _largest(values: Float64Array, most: int) -> Int64Array:
    """Return the numbers of the largest values, rising; of equal values, the first."""
    return np.sort(np.argsort(-values, kind="stable")[:most])


class Shares(NamedTuple):
    """Use of global centers by data sets: l lines and c columns."""

    shares: Float64Array
    """(l, c), share of the weight of a data set, or the mean over the data sets of a line."""
    sets: list[Int64Array]
    """(l,), numbers of the data sets of each line."""
    centers: Int64Array
    """Numbers of the global centers, the heaviest first."""
    centers_together: Int64Array
    """Numbers of the lighter centers; the last column has their shares together."""


def sharing(model: HDPMeans, *, max_lines: int = 200, max_centers: int = 60) -> Shares:
    """Return the share of each global center in the weight of each data set of an `HDPMeans`.

    Data sets are ordered by the center with most of their weight, the heaviest center first, and
    then by its share.  If there are more than `max_lines` data sets, each line is the mean of
    neighbors in this order.  Empty data sets are left out.
    """
    if "sharing" not in description_of(model).pictures:
        raise InputError(f"data sets share clusters in HDPMeans, got {type(model).__name__}")
    max_lines = checks.integer("max_lines", max_lines)
    max_centers = checks.integer("max_centers", max_centers)
    check_is_fitted(model)
    order = np.argsort(-model.cluster_weights_, kind="stable")
    totals = model.local_clusters_.sum(axis=1)
    weights = model.local_clusters_[:, order].tocsr()
    filled = np.flatnonzero(totals > 0)
    main_center = np.asarray(weights.argmax(axis=1)).ravel()[filled]
    main_share = weights.max(axis=1).toarray()[filled] / totals[filled]
    filled = filled[np.lexsort((-main_share, main_center))]
    lines = np.array_split(filled, min(max_lines, len(filled)))
    means = [(weights[sets] / totals[sets, np.newaxis]).mean(axis=0) for sets in lines]
    shares = np.vstack(means)
    if len(order) > max_centers:
        others = shares[:, max_centers:].sum(axis=1)
        shares = np.column_stack([shares[:, :max_centers], others])
    return Shares(shares, lines, order[:max_centers], order[max_centers:])


class Numbers(NamedTuple):
    """The m numbers of clusters that are each the best at some penalties, by rising penalty."""

    n_clusters: Int64Array
    """(m,), falling."""
    low: Float64Array
    """(m,), penalties below give more clusters."""
    high: Float64Array
    """(m,), penalties above give fewer clusters."""
    scores: Float64Array
    """(m,), of alternatives and of others; NaN for 1 and for numbers that could not be chosen."""
    alternatives: tuple[Alternative, ...]
    """The chosen number, then the others by falling score."""
    headline: str
    """The chosen number and why, in a few words."""


def choice_of(model: Model | Choice) -> Choice:
    """Return the choice of the penalty of a fitted estimator."""
    if isinstance(model, Choice):
        return model
    found = attribute(model, "choice_", "choice of a penalty")
    if not isinstance(found, Choice):
        raise InputError('the penalty was not chosen from the rows: fit with penalty="auto"')
    return found


def choice(model: Model | Choice) -> Numbers:
    """Return the numbers of clusters that a choice of the penalty compared.

    Parameters
    ----------
    model : an estimator that was fitted with ``penalty="auto"``, or its `choice_`
    """
    found = choice_of(model)
    if len(found.intervals) == 1:
        reason = f"only {found.n_clusters} cluster was tried"
        raise InputError(f"{reason}: there are no other numbers of clusters to show")
    falling = [(each.n_clusters, each.low, each.high, score(each)) for each in found.intervals]
    numbers, low, high, scores = (np.array(column) for column in zip(*falling, strict=True))
    scores[(numbers == 1) | (numbers > found.largest)] = np.nan
    return Numbers(numbers, low, high, scores, found.alternatives, found.headline)
