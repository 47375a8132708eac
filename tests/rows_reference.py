"""Divergences, holes, outliers and prices, row by row: slow, obvious, and nothing of the package in it.

Rows are a list of blocks of columns, each with a divergence of its own.  NaN is a missing value.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

PRIOR = 0.1
"""Weight of the global mean that is added to each row of a smoothed divergence."""
SMOOTHED = ("poisson", "multinomial", "bernoulli", "categorical")
"""Divergences whose zeros are moved toward the global mean."""
OUTLIER = -1


def log_ratio(x, m):
    """x log(x / m), and 0 if x is 0."""
    if x == 0:
        return 0.0
    return math.inf if m == 0 else x * math.log(x / m)


def squared(x, m):
    return (x - m) ** 2


def poisson(x, m):
    return log_ratio(x, m) - x + m


def bernoulli(x, m):
    return log_ratio(x, m) + log_ratio(1 - x, 1 - m)


def itakura_saito(x, m):
    return x / m - math.log(x / m) - 1


FORMULAS = {
    "squared": squared,
    "cosine": squared,
    "poisson": poisson,
    "bernoulli": bernoulli,
    "itakura-saito": itakura_saito,
    "gamma": itakura_saito,
    "multinomial": log_ratio,
    "categorical": log_ratio,
}
"""The cost of one number at another, by the name of the divergence; costs of a block are sums."""


def divergence(kind, row, center):
    """The cost of a row at a center: sequences of numbers."""
    formula = FORMULAS[kind]
    return math.fsum(formula(x, m) for x, m in zip(row, center, strict=True))


def encoded(kind, columns):
    """The rows of a block as the divergence sees them, before smoothing: (n, width), NaN where missing."""
    if kind == "multinomial":
        return np.array([row / math.fsum(row) for row in columns])
    if kind == "cosine":
        return np.array([direction(row) for row in columns])
    if kind != "categorical":
        return columns
    codes = columns[:, 0]
    n_categories = int(np.nanmax(codes, initial=0)) + 1
    shares = np.full((len(codes), n_categories), np.nan)
    for row, code in enumerate(codes):
        if not math.isnan(code):
            shares[row] = [float(category == code) for category in range(n_categories)]
    return shares


def direction(row):
    """A row of length 1."""
    return row / math.sqrt(math.fsum(row * row))


def weighted_mean(rows, weights):
    """The mean of rows, (n, width), by `math.fsum`."""
    total = math.fsum(weights)
    return np.array([math.fsum(weights * column) / total for column in rows.T])


@dataclass(frozen=True)
class Block:
    """Columns that share a divergence."""

    kind: str
    columns: tuple[int, ...]
    values: np.ndarray
    """(n, width), encoded and smoothed; a missing value is NaN."""
    everywhere: np.ndarray
    """(width,), the mean of all rows."""
    scale: float

    @cached_property
    def seen(self):
        """(n,), whether a row has a value."""
        return ~np.isnan(self.values).any(axis=1)

    def cost(self, row, center):
        return self.scale * divergence(self.kind, self.values[row].tolist(), center.tolist())


def block_of(kind, columns, X, weights, prior, scaled):
    """A block of the columns of X, smoothed by `prior` and scaled to its own mean divergence."""
    values = encoded(kind, X[:, columns])
    seen = ~np.isnan(values).any(axis=1) & (weights > 0)
    everywhere = np.full(values.shape[1], np.nan)
    if seen.any():
        everywhere = weighted_mean(values[seen], weights[seen])
    if kind in SMOOTHED:
        values = (values + prior * everywhere) / (1 + prior)
    block = Block(kind, columns, values, everywhere, 1.0)
    if not scaled:
        return block
    total = math.fsum(weights[row] * block.cost(row, everywhere) for row in np.flatnonzero(seen))
    mean = total / math.fsum(weights[seen]) if seen.any() else 0.0
    return Block(kind, columns, values, everywhere, 1 / mean if mean > 0 else 1.0)


@dataclass(frozen=True)
class Price:
    """Of k clusters, the j-th costs max(floor, penalty - discount * log j)."""

    penalty: float
    discount: float = 0.0
    floor: float = 0.0

    def of(self, k):
        costs = [self.penalty - self.discount * math.log(j) for j in range(1, k + 1)]
        return math.fsum(max(self.floor, cost) for cost in costs)


@dataclass(frozen=True)
class Table:
    """Weighted rows under a divergence of all columns, or of each column."""

    X: np.ndarray
    weights: np.ndarray
    blocks: tuple[Block, ...]
    unscaled: bool = False
    outlier_penalty: float = math.inf

    @property
    def n(self):
        return len(self.X)

    @cached_property
    def factors(self):
        """(n,): number of columns / number observed; 0 for a row without any, 1 if unscaled.

        Columns of which no row of a positive weight has a value do not count.
        """
        counted = ~np.isnan(self.X[self.weights > 0]).all(axis=0)
        rows = self.X[:, counted].tolist()
        observed = [sum(not math.isnan(value) for value in row) for row in rows]
        d = counted.sum()
        return np.array([(1.0 if self.unscaled else d / m) if m else 0.0 for m in observed])

    def row(self, number):
        """A row as a center."""
        return [
            block.values[number] if block.seen[number] else block.everywhere
            for block in self.blocks
        ]

    def center(self, rows):
        """The weighted mean of rows: for each block, of those that have a value there."""
        mass, found = self.weights * self.factors, []
        for block in self.blocks:
            there = [row for row in rows if block.seen[row] and mass[row] > 0]
            mean = block.everywhere
            if there:
                mean = weighted_mean(block.values[there], mass[there])
            if block.kind == "cosine":
                mean = direction(mean)
            found.append(mean)
        return found

    def cost(self, row, center):
        """The cost of a row of weight 1, which may exceed the price of an outlier."""
        parts = zip(self.blocks, center, strict=True)
        costs = [block.cost(row, mine) for block, mine in parts if block.seen[row]]
        return self.factors[row] * math.fsum(costs)

    def costs(self, centers):
        """(n, k) costs."""
        return np.array([[self.cost(row, center) for center in centers] for row in range(self.n)])

    def cheapest(self, centers):
        """Labels, (n,), and costs, (n,), of rows at centers; outliers and rows without a value at -1."""
        costs = self.costs(centers)
        labels, least = costs.argmin(axis=1), costs.min(axis=1)
        labels[(least > self.outlier_penalty) | (self.factors == 0)] = OUTLIER
        return labels, np.minimum(least, self.outlier_penalty)

    def inertia(self, rows):
        """The cost of a cluster of these rows about its mean."""
        center = self.center(rows)
        return math.fsum(self.weights[row] * self.cost(row, center) for row in rows)

    def outliers(self, rows):
        """What these rows cost as outliers."""
        priced = [row for row in rows if self.factors[row] > 0 and self.weights[row] > 0]
        return math.fsum(self.weights[row] * self.outlier_penalty for row in priced)

    def objective(self, labels, price):
        """The cost of rows about the means of their clusters, of outliers, and of the clusters."""
        labels = np.asarray(labels)
        members = [np.flatnonzero(labels == c) for c in np.unique(labels[labels != OUTLIER])]
        inertia = math.fsum(map(self.inertia, members))
        return inertia + self.outliers(np.flatnonzero(labels == OUTLIER)) + price.of(len(members))

    def sweep(self, centers, threshold):
        """Algorithm 1 over the rows in order: centers with those that opened, labels and costs.

        A row of weight w opens a cluster if min(1, w) times its least cost exceeds the threshold.
        """
        centers = list(centers)
        for row in range(self.n):
            least = min(self.cost(row, center) for center in centers)
            if min(1.0, self.weights[row]) * least > threshold:
                centers.append(self.row(row))
        return centers, *self.cheapest(centers)

    def radius_fit(self, penalty):
        """Sweeps from the mean of all rows until nothing changes: labels and centers.

        A sweep that does not lower the objective is not kept, and is the last one: where rows cost
        equally much at two centers, sweeps could go on for ever.
        """
        centers, before, kept, lowest = [self.center(range(self.n))], None, None, math.inf
        while True:
            centers, labels, costs = self.sweep(centers, penalty)
            paid = np.where(self.factors > 0, self.weights * costs, 0.0)
            objective = math.fsum(paid) + penalty * len(
                set(labels[self.weights > 0].tolist()) - {OUTLIER}
            )
            if not objective < lowest:
                return kept
            lowest = objective
            alive = [c for c in range(len(centers)) if self.weights[labels == c].sum() > 0]
            numbers = {c: number for number, c in enumerate(alive)}
            labels = np.array([numbers.get(label, OUTLIER) for label in labels.tolist()])
            kept = labels, [centers[c] for c in alive]
            if before == labels.tolist():
                return kept
            before = labels.tolist()
            centers = [self.center(np.flatnonzero(labels == c)) for c in range(len(alive))]

    def optimum(self, price):
        """The least objective of all partitions into 1 or more clusters, and of every subset if there are outliers.

        Subsets grow by one cluster at a time, which holds the lowest row that is not in one yet,
        so that each partition counts once.
        """
        there = [r for r in range(self.n) if self.weights[r] > 0 and self.factors[r] > 0]
        n = len(there)
        rows = [[there[i] for i in range(n) if subset >> i & 1] for subset in range(2**n)]
        alone = np.array([0.0, *(self.inertia(each) for each in rows[1:])])
        least = np.full((n + 1, 2**n), np.inf)
        least[0, 0] = 0.0
        for whole in range(1, 2**n):
            parts = np.array(subsets_with_lowest(whole))
            least[1:, whole] = (alone[parts] + least[:-1, whole ^ parts]).min(axis=1)
        prices = np.array([price.of(k) for k in range(n + 1)])[:, np.newaxis]
        whole = (least + prices)[1:].min(axis=0)
        if math.isinf(self.outlier_penalty):
            return float(whole[-1])
        left = [self.outliers(rows[~subset & (2**n - 1)]) for subset in range(2**n)]
        return float((whole + left).min())


def subsets_with_lowest(whole):
    """All subsets of a set of bits that hold its lowest bit."""
    lowest = whole & -whole
    rest = part = whole ^ lowest
    found = [lowest | part]
    while part:
        part = (part - 1) & rest
        found.append(lowest | part)
    return found


def table(
    X, kind, weights=None, *, missing="observed", outlier_penalty=math.inf, prior=PRIOR, scaled=None
):
    """A table of rows, (n, d) with NaN; `kind` names a divergence, or is a list with one for each column.

    Columns of a list are scaled to their own mean divergence.  Multinomial columns with holes are
    shares of what was observed in the row, each under the generalized divergence, that of "poisson".
    """
    X = np.asarray(X, float)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, float)
    numbers = X
    if kind == "multinomial" and np.isnan(X).any():
        kind, numbers = "poisson", np.array([row / np.nansum(row) for row in X])
    if kind in ("multinomial", "cosine"):
        spans = [(kind, tuple(range(X.shape[1])))]
    else:
        kinds = [kind] * X.shape[1] if isinstance(kind, str) else kind
        spans = [(each, (column,)) for column, each in enumerate(kinds)]
    scaled = not isinstance(kind, str) if scaled is None else scaled
    blocks = [block_of(each, columns, numbers, weights, prior, scaled) for each, columns in spans]
    return Table(X, weights, tuple(blocks), missing == "unscaled", outlier_penalty)
