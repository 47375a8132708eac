"""Penalties from numbers of clusters, as Kulis & Jordan 2012 choose them (section 6.1)."""

from typing import Any, NamedTuple

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.groups import data_sets
from dask_dpmeans.kernels.farthest import Farthest, GroupSums
from dask_dpmeans.sources import as_source


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
    for name, number in (("local_clusters", local_clusters), ("global_clusters", global_clusters)):
        if not (isinstance(number, int | np.integer) and number >= 1):
            raise InputError(f"{name} must be an integer >= 1, got {number!r}")
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
