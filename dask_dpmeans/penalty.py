"""Which penalty: from numbers of clusters, or from how many clusters each penalty gives."""

from typing import Any, NamedTuple

import numpy as np

from dask_dpmeans.algorithms.farthest import traverse
from dask_dpmeans.algorithms.metric import metric_of
from dask_dpmeans.errors import InputError
from dask_dpmeans.groups import data_sets
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.farthest import Farthest, GroupSums
from dask_dpmeans.sources import as_source


class FarthestFirst(NamedTuple):
    """What `farthest_first` finds."""

    penalty: float
    """The squared distance of the last row taken, in squared units of the rows."""
    penalties: Float64Array
    """(k,), the same for every number of clusters from 1 to k; never rises."""
    rows: Int64Array
    """(k,), numbers of the rows that were taken, in order."""
    points: Float64Array
    """(k, d), these rows, as the fit would see them."""
    n_passes: int
    """Passes over the rows, after the one that checks them."""


def farthest_first(
    X: Any, k: int, *, sample_weight: Any = None, metric: str = "euclidean", **where: Any
) -> FarthestFirst:
    """The penalty for about k clusters by farthest-first traversal (Kulis & Jordan 2012, section 6.1).

    The first point is the mean of all rows; then k times the row farthest from all points joins them.  The penalty is
    the squared distance at which the last one joined, read as a radius: ``DPMeans(penalty)``.  Outliers are what it
    finds first; `penalty_for` looks at what the fit makes of a penalty.

    A pass brings the rows that are farthest, up to 1,024, and takes points from among them as long as no other row can
    be farther.  The answer is that of the serial loop to the bit, with equal distances to the lowest row number, for
    any chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows as `DPMeans.fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    k : about how many clusters there should be
    sample_weight : (n,), optional
        Weights >= 0 for the mean of all rows; those without weight are not taken.
    metric : "euclidean" or "cosine"
        As `DPMeans` has it.
    **where : columns, scale, client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    FarthestFirst

    Raises
    ------
    InputError
        Where there are fewer different rows than k.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.penalty import farthest_first
    >>> found = farthest_first(np.array([[0.0], [1.0], [8.0], [9.0]]), 3)
    >>> found.penalties.tolist(), found.rows.tolist()
    ([20.25, 20.25, 1.0], [0, 3, 1])
    """
    _check_count("k", k)
    geometry = metric_of(metric)
    source = as_source(X, sample_weight, features=geometry.features, **where)
    first = geometry.means(source.summary.mean[np.newaxis], np.eye(1, source.n_features))
    found = traverse(source, first, k)
    if len(found.numbers) < k:
        raise InputError(
            f"k={k} is more than the rows that differ from each other and from their mean, {len(found.numbers)}: "
            "ask for fewer clusters"
        )
    return FarthestFirst(float(found.squared[-1]), found.squared, found.numbers, found.rows, found.passes)


class HDPPenalties(NamedTuple):
    """What `hdp_penalties` finds, in squared units of the rows times weight."""

    local_penalty: float
    global_penalty: float


def hdp_penalties(
    data: Any, local_clusters: int, global_clusters: int, *, groups: Any = None, **where: Any
) -> HDPPenalties:
    """Penalties of the HDP from about how many clusters there should be: farthest-first traversals.

    Local: in each data set points are taken, first its mean, then time after time the row farthest from all points
    taken; the squared distance of the row number `local_clusters` is averaged over the sets.  Global: the first point
    is the mean of all rows; then that data set is looked for whose rows' squared distances to the points have the
    greatest sum, and its row farthest from the points is taken; the penalty is that sum, for the set number
    `global_clusters`.  (The paper does not say what joins the points in the global traversal.)

    Parameters
    ----------
    data : list of (n_j, d) arrays, one a data set; or (n, d) rows, with `groups`, as `HDPMeans.fit` takes them
    local_clusters : about how many a data set has
    global_clusters : about how many there are in all
    groups : (n,) integers >= 0, the data set of each row
    **where : columns, scale, client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    HDPPenalties
        One pass over the rows for each of the clusters asked for, and two more.
    """
    _check_count("local_clusters", local_clusters)
    _check_count("global_clusters", global_clusters)
    rows, sets = data_sets(data, groups)
    if sets is None:
        raise InputError("groups are missing: pass the number of each row's data set, or a list of data sets")
    source = as_source(rows, groups=sets, **where)
    sums = source.fold(GroupSums(), name="groups")
    first = np.zeros((source.summary.n_groups, source.n_features))
    first[sums.uses] = sums.moments.means
    points, found = [first], None
    for _ in range(local_clusters):
        found = source.fold(Farthest(tuple(points)), name="farthest")
        points.append(np.zeros_like(first))
        points[-1][found.groups] = found.rows
    assert found is not None
    taken, total = [source.summary.mean[np.newaxis]], 0.0
    for _ in range(global_clusters):
        farthest = source.fold(Farthest(tuple(taken)), name="farthest")
        dearest = int(farthest.totals.argmax())
        total = float(farthest.totals[dearest])
        taken.append(farthest.rows[dearest][np.newaxis])
    penalties = HDPPenalties(float(found.squared.mean()), total)
    if not min(penalties) > 0:
        raise InputError(f"the data sets have fewer different rows than {local_clusters} or {global_clusters} clusters")
    return penalties


def _check_count(name: str, number: int) -> None:
    if not (isinstance(number, int | np.integer) and not isinstance(number, bool) and number >= 1):
        raise InputError(f"{name} must be an integer >= 1, got {number!r}")
