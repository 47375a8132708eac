"""The schedule of trials: which clusters a trial opens or deletes, and when trials end."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.moves import Findings, Moves, deletions, no_moves
from dask_dpmeans.methods.dpmeans.search_state import State

SHARES = (0.3, 0.1, 0.05, 0.02)
"""Clusters that a trial opens or deletes, as a share of all: larger ones first."""
QUICK_SHARE = 2
"""Index of the first share that a quick search tries."""
LAST_SHARES = 2
"""Number of shares that are tried on all rows after a coreset."""
TRIALS_BELOW = 2**17
"""Rows up to which there are crossovers, and trials without a coreset or on one."""
TRIALS_AFTER_BELOW = 2**19
"""Rows up to which trials on all rows follow a coreset."""
PROMISING = 0.5
"""Part of the price of new clusters that their splits must save at once, for a trial that only opens some.

In quick searches of mnist10, openings that ended lower saved .6 of it or more; between 100 separate
clusters, where none did, .1 to .15, and three such trials took half as long as the search."""
KINDS = {
    "open": MoveCounts(openings=1),
    "delete": MoveCounts(closings=1),
    "swap": MoveCounts(swaps=1),
}
"""Kinds of trials, in turn, and how each counts in the history."""


@dataclass(frozen=True)
class Trial:
    """The end of a trial."""

    found: Findings
    passes: int
    moves: MoveCounts


def kind_of(state: State) -> str:
    """Return the kind of the next trial."""
    return list(KINDS)[state.failures % len(KINDS)]


def clusters_to_change(state: State) -> int:
    """Return how many clusters the next trial opens or deletes."""
    return max(1, int(SHARES[state.share] * len(state.centers)))


def openings_promise(found: Findings, state: State) -> bool:
    """Return whether splits would save enough for the next trial, if it only opens clusters."""
    count = clusters_to_change(state)
    saved = float(np.sort(_savings(found))[-count:].sum())
    return saved >= PROMISING * found.price.change(found.alive, found.alive + count)


def _savings(found: Findings) -> Float64Array:
    """Return what splits save, then what candidates among the outliers do."""
    if found.among_outliers is None:
        return found.savings
    return np.concatenate([found.savings, found.among_outliers.savings])


def splits_to_try(
    found: Findings, count: int, random: np.random.Generator, *, noisy: bool
) -> Moves:
    """Return splits of the clusters that save the most, or nearly the most if `noisy`.

    Candidates among the outliers take part as clusters do.
    """
    savings = _savings(found)
    chances = savings
    if noisy:
        chances = chances * random.exponential(size=len(savings))
    chosen = np.argsort(-chances, kind="stable")[:count]
    chosen = chosen[savings[chosen] > 0]
    split = np.zeros(found.k, np.bool_)
    split[chosen[chosen < found.k]] = True
    opened = chosen[chosen >= found.k] - found.k
    return replace(no_moves(found), split=split, opened=opened)


def deletes_to_try(found: Findings, count: int, random: np.random.Generator) -> Moves:
    """Return deletes of the clusters with about the least losses; receivers of rows stay."""
    losses = found.transfer_losses * random.exponential(size=found.k) ** 0.3
    nothing = no_moves(found)
    return replace(nothing, deleted=nothing.deleted | deletions(found, losses, -math.inf, count)[0])


def judge(state: State, success: bool, rounds: int) -> State:
    """Return the state after a trial: if so many rounds fail, the share shrinks, down to one cluster."""
    if success:
        return replace(state, failures=0)
    failures = state.failures + 1
    if failures < rounds * len(KINDS):
        return replace(state, failures=failures)
    if clusters_to_change(state) > 1:
        return replace(state, share=state.share + 1, failures=0)
    return replace(state, share=len(SHARES), failures=0)
