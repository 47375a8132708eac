"""The least objective of all partitions of a few rows in exact fractions: what no lower bound may be above."""

from fractions import Fraction
from itertools import combinations

import numpy as np


def exact_optimum(rows, weights, penalty):
    """Return the least squared error + penalty * k as a Fraction; rows of weight 0 are left out."""
    heavy = [(row, weight) for row, weight in zip(rows, weights, strict=True) if weight > 0]
    points = [[Fraction(float(value)) for value in row] for row, _ in heavy]
    masses = [Fraction(float(weight)) for _, weight in heavy]
    n, price = len(points), Fraction(float(penalty))
    pairs = {
        (i, j): masses[i]
        * masses[j]
        * sum((a - b) ** 2 for a, b in zip(points[i], points[j], strict=True))
        for i, j in combinations(range(n), 2)
    }
    costs = [price] * 2**n
    for subset in range(1, 2**n):
        members = [i for i in range(n) if subset >> i & 1]
        within = sum((pairs[pair] for pair in combinations(members, 2)), Fraction(0))
        costs[subset] += within / sum(masses[i] for i in members)
    least = [Fraction(0)] * 2**n
    for whole in range(1, 2**n):
        lowest = whole & -whole
        rest = part = whole ^ lowest
        best = costs[whole]
        while part:  # `part` does not share a cluster with the lowest row
            best = min(best, costs[whole ^ part] + least[part])
            part = (part - 1) & rest
        least[whole] = best
    return least[-1]


def instance(seed):
    """Return a few rows, their weights and a penalty: clouds, grids, copies, far off, in float32, huge or tiny."""
    rng = np.random.default_rng(seed)
    n, columns = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    rows = rng.normal(size=(n, columns)) + rng.choice([0, 4]) * rng.integers(0, 3, (n, 1))
    kind = rng.integers(7)
    if kind == 1:
        rows = rng.integers(-2, 3, (n, columns)).astype(float)
    elif kind == 2:
        rows = rows[rng.integers(0, n, n)]
    elif kind == 3:
        rows += 1e6
    elif kind == 4:
        rows = (rows + rng.choice([0, 1e6])).astype(np.float32).astype(float)
    elif kind == 5:
        rows *= rng.choice([1e-120, 1e120])
    elif kind == 6:
        rows[0] += 1e4
    weights = np.ones(n)
    if rng.random() < 0.5:
        weights = rng.choice([0.0, 0.25, 1.0, 3.0, 1e-6, 1e6], n)
    spread = max(float(weights @ ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)), 1e-300)
    return rows, weights, spread * 10 ** rng.uniform(-3, 0.5)
