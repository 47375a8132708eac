"""The lowest objective of all partitions of a few things, by enumeration of all subsets."""

from functools import cache

import numpy as np


@cache
def labelings(n):
    """Return all partitions of n rows as labels, (p, n): a row joins an earlier cluster, or opens the next."""
    every = [[]]
    for _ in range(n):
        every = [[*each, c] for each in every for c in range(max(each, default=-1) + 2)]
    return np.array(every)


def least_objective(rows, weights, penalty, metric):
    """The least objective: of directions 2 (weight - length of the sum) a cluster, or else the squared error."""
    heavy = weights > 0
    rows, weights = rows[heavy].astype(np.float64), weights[heavy]
    if metric == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    else:
        rows = rows - np.average(rows, axis=0, weights=weights)
    every = labelings(len(rows))
    costs = np.zeros(len(every))
    for label in range(len(rows)):
        members = (every == label) * weights
        totals, sums = members.sum(axis=1), members @ rows
        some = totals > 0
        lengths = (sums**2).sum(axis=1)
        if metric == "cosine":
            costs += 2 * (totals - np.sqrt(lengths))
        else:
            costs += members @ (rows**2).sum(axis=1) - lengths / np.where(some, totals, 1.0)
        costs += penalty * some
    return float(costs.min())


@cache
def partitions(n):
    """Return all partitions of n rows as tuples of tuples of row numbers."""
    return [
        tuple(
            tuple(np.flatnonzero(labels == c).tolist()) for c in range(max(labels, default=-1) + 1)
        )
        for labels in labelings(n)
    ]


def subsets(n):
    """Return all sets of n things, (2**n, n): 1 where a thing is in the set."""
    return (np.arange(2**n)[:, np.newaxis] >> np.arange(n) & 1).astype(float)


def lowest(links, masses, price):
    """The least price * k - sum of kept / mass over all partitions.

    Subsets are added one after the other, each with the lowest number that is left, so that every partition counts.
    `links` is (n, n) and symmetric, `masses` (n,).
    """
    n = len(masses)
    inside = subsets(n)
    kept, mass = np.einsum("si,ij,sj->s", inside, links, inside), inside @ masses
    costs = (price - np.divide(kept, mass, out=np.zeros(2**n), where=mass > 0)).tolist()
    least = [0.0] * 2**n
    for whole in range(1, 2**n):
        lowest_bit = whole & -whole
        rest = part = whole ^ lowest_bit
        best = costs[lowest_bit | part] + least[rest ^ part]
        while part:
            part = (part - 1) & rest
            best = min(best, costs[lowest_bit | part] + least[rest ^ part])
        least[whole] = best
    return least[-1]


def lowest_kernel_objective(gram, weights, penalty):
    """The least inertia + penalty * k in the space of a kernel, for rows of these weights, some of them 0."""
    there = weights > 0
    gram, weights = gram[np.ix_(there, there)], weights[there]
    within = float(weights @ np.diag(gram))
    return within + lowest(gram * np.outer(weights, weights), weights, penalty)


def lowest_objective(rows, weights, penalty):
    """The least inertia + penalty * k for rows of these weights, from differences between rows.

    The inertia of a set is the sum of w_i w_j |x_i - x_j|^2 over its pairs, over the weight of the set.
    """
    there = weights > 0
    rows, weights = rows[there], weights[there]
    squared = ((rows[:, np.newaxis] - rows) ** 2).sum(axis=2)
    return lowest(-0.5 * squared * np.outer(weights, weights), weights, penalty)


def lowest_cut(graph, penalty, normalized):
    """The least cut + penalty * k; nodes without links have no part in a normalized cut."""
    degrees = graph.sum(axis=1)
    if not normalized:
        return lowest(graph - np.diag(degrees), np.ones(len(graph)), penalty)
    linked = degrees > 0
    return lowest(graph[np.ix_(linked, linked)], degrees[linked], 1 + penalty)
