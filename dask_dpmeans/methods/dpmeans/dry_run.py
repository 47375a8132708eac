"""Clusters of the first rows, from which a dry run estimates a pass of all rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.occ import settle
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.methods.dpmeans.starts import OPTIMISM
from dask_dpmeans.methods.dpmeans.trials import SHARES

SEARCH_ROWS = 2**14
"""Most of these rows that are searched."""
SEARCH_STEPS = 20
"""Steps of that search; of sift, at a penalty that ends with 929 clusters, 18 steps gave 917."""
SEARCH_PRODUCTS = 2**31
"""Multiplications of a step, about, at which the search stops: 1,024 clusters of d = 128."""
SEARCH_COLUMNS = 2**7
"""Number of columns below which a step takes no less time."""


class SampleClusters(NamedTuple):
    """Clusters of the first rows."""

    centers: Float64Array
    """(k, d)."""
    words: str
    """Words for these clusters."""
    fit_has_more: bool
    """Whether a fit of all rows has at least as many clusters."""


ClusterSample = Callable[[InMemoryRows, Any, int], SampleClusters]
"""Function of the first rows, a method, and the number of all rows."""


def open_centers(rows: InMemoryRows, method: batch.Method, n_rows: int) -> SampleClusters:
    """Return the first centers and those that the first rows open."""
    first = method.kernel_centers(method.first_centers(rows))
    swept = settle(rows, batch.Openings(method.price), first, gradually=True)
    method.objective(swept.answer.moments.inertia, len(swept.state))  # it must be finite
    words = (
        f"the first centers and those that the first {format_count(rows.plan.n_rows, 'row')} open; "
        "all rows may open more, and a pass then takes longer"
    )
    return SampleClusters(swept.state.values, words, fit_has_more=True)


def search_centers(rows: InMemoryRows, method: search.Method, n_rows: int) -> SampleClusters:
    """Return the centers of a search of some of the first rows.

    Squared error grows with the number of rows, so a cluster of some rows costs their share of the
    penalty.  It also costs the optimism of their squared error, as on a coreset.
    """
    every = -(-rows.plan.n_rows // SEARCH_ROWS)
    weights = None
    if rows.weights is not None and rows.weights[::every].any():
        weights = rows.weights[::every].copy()
    some = InMemoryRows(rows.rows[::every].copy(), weights, rows.scale)
    count, d = some.rows.shape
    most, share = SEARCH_PRODUCTS // (count * max(d, SEARCH_COLUMNS)), count / n_rows
    at_share = method.with_prices(share)
    found = _apply_moves(some, at_share, most)
    if count < n_rows:
        optimism = OPTIMISM * (1 - share) * float(found.inertias.sum()) / count
        found = _apply_moves(some, at_share.with_prices(more=optimism), most)
    method.objective(float(found.inertias.sum()), len(found.centers))  # it must be finite
    which, end = f"a search of {format_count(count, 'row')}", "ends"
    if count < n_rows:
        which += ", a cluster at their share of the penalty,"
        end += "; all rows may have more"
    words = f"with which {which} {end}"
    if len(found.centers) > most:
        more = "all rows may have many more, and a pass then takes longer"
        words = f"at which {which} was stopped; {more}"
    return SampleClusters(found.centers, words, fit_has_more=False)


def _apply_moves(rows: InMemoryRows, method: search.Method, most: int) -> State:
    """Return the state after a few steps of the search, or at more than `most` clusters."""
    alone = replace(method, max_clusters=None, max_iter=SEARCH_STEPS, coreset_rows=0)
    start = replace(alone.init(rows), share=len(SHARES))
    for step in iterate(rows, alone, start):
        if len(step.state.centers) > most:
            break
    return step.state
