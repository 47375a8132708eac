"""Choice of a penalty: from a number of clusters, or from a path of penalties."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.checks import short_repr
from dask_dpmeans.errors import InputError, warn
from dask_dpmeans.estimators.base import RandomState
from dask_dpmeans.estimators.data_sets import data_sets
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.keyed_sums import Farthest, GroupSums
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.methods.dpmeans.farthest_first import traverse
from dask_dpmeans.methods.hdp.batch import check_sets
from dask_dpmeans.selection.path import PenaltyPath, penalty_path
from dask_dpmeans.selection.path_store import read_path, stored_path, write_path
from dask_dpmeans.selection.trial_fits import (
    FEW_ROWS,
    FitOptions,
    RowOptions,
    TrialFits,
    check_options,
    describe_options,
    locked_checkpoint,
    rows_and_mean,
    rows_of_cube,
    seed_of_job,
    split_options,
    trial_fits,
)
from dask_dpmeans.sources import Reading, RowSource, as_source, check_option_names
from dask_dpmeans.storage.location import AnyPlace

FEW_SEEN = (
    f"fits saw a summary of fewer than {FEW_ROWS} rows a cluster: the penalty may be far off; raise "
    "summary_rows"
)
__all__ = [
    "FarthestFirst",
    "HDPPenalties",
    "PenaltyFor",
    "PenaltyPath",
    "farthest_first",
    "hdp_penalties",
    "penalty_for",
    "penalty_path",
    "read_path",
    "stored_path",
    "write_path",
]


class FarthestFirst(NamedTuple):
    """Result of `farthest_first`."""

    penalty: float
    """Squared distance of the last row taken, in squared units of the rows; with the metric
    "haversine" the distance in kilometers, as a radius of `DPMeans`."""
    penalties: Float64Array
    """(k,), the penalty for each number of clusters from 1 to k; never rises."""
    rows: Int64Array
    """(k,), numbers of the rows taken, in order."""
    points: Float64Array
    """(k, d), the rows taken, as a fit would see them: for "haversine" points in kilometers."""
    n_passes: int
    """Passes over the rows, not counting the first pass, which checks them."""

    def __repr__(self) -> str:
        return short_repr(self)


def farthest_first(
    X: ArrayLike | AnyPlace,
    k: int,
    *,
    sample_weight: ArrayLike | AnyPlace | None = None,
    metric: str = "euclidean",
    **where: Unpack[RowOptions],
) -> FarthestFirst:
    """Return a penalty for about k clusters by farthest-first traversal.

    The traversal is from Kulis & Jordan 2012, section 6.1.

    The first point is the mean of all rows.  Then, k times, the row farthest from all points
    becomes a point.  The penalty is the squared distance of the last one, read as a radius:
    ``DPMeans(penalty)``.  The traversal finds outliers first; `penalty_for` looks at what fits
    give.

    One pass finds up to 1,024 of the farthest rows, and takes points from them as long as no other
    row can be farther.  The result equals the serial loop to the bit, for any chunking, threads and
    workers; among equal distances, the lowest row number is taken.

    Parameters
    ----------
    X : (n, d) rows, as for `DPMeans.fit`, or the path or URL of a Zarr array or ``.npy`` file
    k : int, about how many clusters there should be
    sample_weight : (n,), optional
        Weights >= 0 for the mean of all rows.  Rows of weight 0 are never taken.
    metric : "euclidean", "cosine" or "haversine" as in `DPMeans`
    **where : columns, scale, client, threads, memory_limit, on_pass, as for `dask_dpmeans.fit`
        divergence, missing, smoothing and balance_columns as in `DPMeans`: the farthest row is
        then the one whose divergence from all points is the greatest.

    Returns
    -------
    FarthestFirst

    Raises
    ------
    InputError
        There are fewer different rows than k.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import farthest_first
    >>> found = farthest_first(np.array([[0.0], [1.0], [8.0], [9.0]]), 3)
    >>> found.penalties.tolist(), found.rows.tolist()
    ([20.25, 20.25, 1.0], [0, 3, 1])
    """
    check_options("farthest_first", where, RowOptions)
    checks.integer("k", k)
    own, reading = split_options(where)
    model = DPMeans(1.0, metric=metric, **own)
    source, first, method = rows_and_mean(X, sample_weight, model, reading)
    divergence = method.divergence
    found = traverse(source, first, k, divergence.general)
    penalties = np.array([divergence.penalty_of(each, search=False) for each in found.squared])
    points = divergence.shown(found.rows)
    return FarthestFirst(float(penalties[-1]), penalties, found.numbers, points, found.passes)


class PenaltyFor(NamedTuple):
    """Result of `penalty_for`."""

    penalty: float
    """In squared units of the rows times weight; with the metric "haversine" a price in square
    kilometers, or a radius in kilometers."""
    n_clusters: int
    """Number of clusters at this penalty; not `wanted` if k jumps over that number."""
    wanted: int
    """Number of clusters asked for."""
    tried: tuple[tuple[float, int], ...]
    """Penalties tried, rising, each with its number of clusters."""
    full: bool
    """Whether the number of clusters is exact for all rows."""
    rows_used: int
    """Number of rows that the fits saw: all, or the rows of the summary."""
    random_state: int
    """The seed."""

    def __repr__(self) -> str:
        return short_repr(self)


def penalty_for(
    X: ArrayLike | AnyPlace,
    n_clusters: int,
    *,
    search: bool = False,
    full: bool = False,
    sample_weight: ArrayLike | AnyPlace | None = None,
    metric: str = "euclidean",
    summary_rows: int | None = None,
    random_state: RandomState = None,
    checkpoint: AnyPlace | None = None,
    **where: Unpack[FitOptions],
) -> PenaltyFor:
    """Return the penalty at which fits give about `n_clusters` clusters, by bisection.

    As a radius, it starts at the penalty of farthest-first traversal, and runs Algorithm 1 at each
    penalty, until two penalties differ by less than a thousandth.  As a price (`search`), it takes
    two known numbers of clusters and tries the penalty at which both cost the same; the result is
    the middle of the interval of that number of clusters.  The number of clusters may jump over the
    one wanted: the result says which number was reached.

    **The fits see a summary if there are more than 2 x `summary_rows` rows**, as in `penalty_path`.
    The default is 16,384, or 64 for each cluster wanted if that is more.

    Parameters
    ----------
    X : (n, d) rows, as for `DPMeans.fit`, or the path or URL of a Zarr array or ``.npy`` file
    n_clusters : int, number of clusters wanted
    search : bool, read penalties as prices
    full : bool
        Fit all rows: as radii at each penalty tried; as a price once, at the penalty that the
        summary gives.
    sample_weight, metric, summary_rows, random_state, **where
        As for `penalty_path`.  X may be a cube.
    checkpoint : path or URL, optional
        Finished fits are saved here until the penalty is found.  After a stop, the same call
        continues with them.  Another job that uses the place is an error.

    Returns
    -------
    PenaltyFor

    Raises
    ------
    InputError
        There are fewer different rows than clusters wanted.
    LockLostError
        Another job took the checkpoint, because this job did not respond for too long.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import penalty_for
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])
    >>> found = penalty_for(X, 2, search=True, random_state=0)
    >>> found.n_clusters, round(found.penalty, 1)
    (2, 147.8)
    """
    check_options("penalty_for", where, FitOptions)
    search, full = checks.switch("search", search), checks.switch("full", full)
    n_clusters = checks.integer("n_clusters", n_clusters)
    sees_summary = search or not full
    X, sample_weight, where = rows_of_cube(X, sample_weight, where)
    own, reading = split_options(where)
    asked = {"n_clusters": n_clusters, "search": search, "full": full, "metric": metric}
    parameters: dict[str, object] = asked | describe_options(own)
    with locked_checkpoint(checkpoint, "penalty", [X, sample_weight], resume=True) as kept:
        seed = seed_of_job(kept, random_state)
        trial: TrialFits = trial_fits(
            X, sample_weight, reading, seed, summary_rows, search=search, metric=metric, **own
        )
        parameters["summary_rows"] = None if summary_rows is None else int(summary_rows)
        trial = trial.with_checkpoint(kept, "penalty", trial.describe(X, sample_weight, parameters))
        if summary_rows is None and sees_summary:
            trial = trial.with_rows_for(n_clusters)
        found = trial.bisect(n_clusters, on_all_rows=full and not trial.whole)
        if kept is not None:
            kept.lock.check()
            kept.remove_fits()
    if kept is not None:
        kept.store.location.remove_empty()
    if sees_summary and trial.seen < FEW_ROWS * n_clusters:
        warn(FEW_SEEN)
    k, exact = found.solution.k, full or trial.whole
    rows_used = trial.rows_used(exact=exact)
    shown_penalty = partial(metric_of(metric).penalty_of, search=search)
    tried = tuple((shown_penalty(price), count) for price, count in found.tried)
    return PenaltyFor(shown_penalty(found.penalty), k, n_clusters, tried, exact, rows_used, seed)


class HDPPenalties(NamedTuple):
    """Penalties of `HDPMeans`, in squared units of the rows times weight."""

    local_penalty: float
    global_penalty: float


def hdp_penalties(
    data: ArrayLike | AnyPlace | Sequence[ArrayLike],
    local_clusters: int,
    global_clusters: int,
    *,
    groups: ArrayLike | AnyPlace | None = None,
    **where: Unpack[Reading],
) -> HDPPenalties:
    """Return penalties of `HDPMeans` for wanted numbers of clusters, by farthest-first traversal.

    Local penalty: in each data set, the first point is the mean, and the next point is always the
    row farthest from all points so far.  The penalty is the squared distance of point number
    `local_clusters`, averaged over the data sets.

    Global penalty: the first point is the mean of all rows.  For each data set, the squared
    distances of its rows to the nearest point are summed.  The data set with the largest sum adds
    its farthest row as the next point.  The penalty is the largest sum in round `global_clusters`.
    (The paper does not say which points are added here.)

    Parameters
    ----------
    data : list of (n_j, d) arrays, one a data set; or (n, d) rows with `groups`
        As for `HDPMeans.fit`.
    local_clusters : int, about how many clusters one data set should have
    global_clusters : int, about how many clusters all data sets should have together
    groups : (n,) integers >= 0, optional, the number of the data set of each row
    **where : columns, scale, client, threads, memory_limit, on_pass, as for `dask_dpmeans.fit`

    Returns
    -------
    HDPPenalties
        It takes one pass over the rows for each cluster asked for, and two more.

    Raises
    ------
    InputError
        `groups` are missing, or the data sets have too few different rows.
    """
    check_option_names("hdp_penalties", where, Reading)
    checks.integer("local_clusters", local_clusters)
    checks.integer("global_clusters", global_clusters)
    rows, sets, *_ = data_sets(data, groups)
    if sets is None:
        raise InputError(
            "groups are missing: pass the number of each row's data set, or a list of data sets"
        )
    source = as_source(rows, groups=sets, **where)
    check_sets(source.summary.n_groups, source.plan.n_rows)
    penalties = HDPPenalties(
        _local_penalty(source, local_clusters), _global_penalty(source, global_clusters)
    )
    if not min(penalties) > 0:
        wanted = f"{local_clusters} or {global_clusters} clusters"
        raise InputError(f"the data sets have fewer different rows than {wanted}: ask for fewer")
    return penalties


def _local_penalty(source: RowSource, n_clusters: int) -> float:
    sums = source.fold(GroupSums(), name="groups")
    first = np.zeros((source.summary.n_groups, source.n_features))
    first[sums.keys] = sums.values.means
    points, squared = [first], 0.0
    for _ in range(n_clusters):
        found = source.fold(Farthest(tuple(points)), name="farthest")
        points.append(np.zeros_like(first))
        points[-1][found.groups] = found.rows
        squared = float(found.squared.mean())
    return squared


def _global_penalty(source: RowSource, n_clusters: int) -> float:
    points, total = [source.summary.mean[np.newaxis]], 0.0
    for _ in range(n_clusters):
        farthest = source.fold(Farthest(tuple(points)), name="farthest")
        worst = int(farthest.totals.argmax())
        total = float(farthest.totals[worst])
        points.append(farthest.rows[worst][np.newaxis])
    return total
