"""Penalties of the hierarchical DP-means from numbers of clusters."""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.data_sets import data_sets
from dask_dpmeans.kernels.keyed_sums import Farthest, GroupSums
from dask_dpmeans.methods.hdp.batch import check_sets
from dask_dpmeans.sources import Reading, RowSource, as_source, check_option_names
from dask_dpmeans.storage.location import AnyPlace


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
