"""The least objective of all partitions of a few rows in exact fractions: what no lower bound may be above."""

from fractions import Fraction
from itertools import combinations


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
