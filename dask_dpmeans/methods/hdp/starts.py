"""Starts of a search: the end of Algorithm 2, and searches that pool all data sets."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.hdp import NearestUses
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans import starts as search_starts
from dask_dpmeans.methods.dpmeans.path import summary_of
from dask_dpmeans.methods.dpmeans.search_state import State as PooledState
from dask_dpmeans.methods.hdp import batch
from dask_dpmeans.methods.hdp.search_pass import SearchParameters, State
from dask_dpmeans.methods.hdp.state import Uses


def starts(method: SearchParameters, source: Source, state: State) -> Iterator[State]:
    """Yield the end of Algorithm 2, then ends of pooled searches; `rows_read` counts each alone."""
    limits = method.max_iter, method.tol, method.max_clusters
    *_, last = iterate(source, batch.Method(method.local_penalty, method.global_penalty, *limits))
    local = last.state.local
    uses = Uses(local.groups, local.centers)
    yield method.start_at(
        state, last.state.centers, uses, last.state.rows_read - source.plan.n_rows
    )
    n_sets = len(np.unique(local.groups))
    if n_sets == 1:
        *_, pooled = iterate(source, _pooled_search(method, method.prices.both))
        end = pooled.state
        yield _from_pooled(method, source, state, end, end.rows_read - source.plan.n_rows)
        return
    rows, _ = summary_of(source, search_starts.LEAST_CORESET, method.seed)
    restarts = []
    for users in (1.0, math.sqrt(n_sets), float(n_sets)):
        price = method.global_penalty + method.local_penalty * users
        alone = replace(_pooled_search(method, price), coreset_rows=0)
        restarts.append(search_starts.Restart(alone, tries=0))
    for end in source.run(restarts, rows, "search"):
        yield _from_pooled(method, source, state, end, source.plan.n_rows)


def _pooled_search(method: SearchParameters, penalty: float) -> search.Method:
    """Return the search that takes all rows as one data set."""
    return search.Method(penalty, max_iter=method.max_iter, tol=method.tol, seed=method.seed)


def _from_pooled(
    method: SearchParameters, source: Source, state: State, end: PooledState, rows_read: int
) -> State:
    """Return the start at centers of a pooled search, used by the sets whose rows are nearest."""
    keys = source.fold(NearestUses(Centers(end.centers)), name="uses")
    uses = Uses(*np.divmod(keys, len(end.centers)))
    return method.start_at(state, end.centers, uses, rows_read + source.plan.n_rows)
