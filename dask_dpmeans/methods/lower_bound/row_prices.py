"""A lower bound of the objective by prices of rows: linear programming and boxes of centers.

Let each row i pay u_i, and let no center c of the whole space have a surplus, the weighted sum of
max(0, u_i - |x_i - c|^2), above g.  Then J* >= sum of w_i u_i * min(1, penalty / g): prices of u / a
have a surplus of at most g / a for a >= 1, and rows of a cluster whose surplus is at most the penalty
pay at most what the cluster costs.

The best prices solve the dual of the linear program with a column for each possible cluster (du Merle
et al. 1999).  They lie between the squared distances to the nearest and to the second nearest center
of the best clusters.  A barrier keeps them in the middle of what the known columns allow; new columns
are the centers that rows of these prices would open.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.spatial import KDTree

from dask_dpmeans.engine.checkpoints import Arrays, Checkpoint
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.lower_bound.barrier import Program
from dask_dpmeans.kernels.lower_bound.main_axes import MainAxes
from dask_dpmeans.kernels.lower_bound.micro_surplus import Extents, MicroRows, PricedMicroClusters
from dask_dpmeans.kernels.lower_bound.surplus import EPSILON, PricedRows, greatest_surplus
from dask_dpmeans.kernels.moments import total

CELLS = 600
"""Prices that the program finds: the rows of a cell pay as much beyond their distance."""
CELLS_PER_CLUSTER = 20
MOST_CELLS = 3000
"""The program takes memory of its square."""
SUMMARY = 2**13
"""Rows with which new columns are sought; more rows are merged into so many."""
MARGIN = 0.02
"""How far prices may be out of the range of optimal clusters, over the penalty of a row."""
MOST_PAIRS = 2**27
"""Pairs of boxes and rows that all bounds of the surplus may look at together."""
TINY = 1e-60
"""Penalties below this share of the squared distances have no bound but themselves."""
LEAST_PENALTY = 1e-290
"""Lower penalties have no bound but themselves: numbers near the least ones are rounded by far more than
`EPSILON`, perhaps to a bound above the optimum."""
ROUNDS = 200
MOST_WORK = 2.0**40
"""Cubes of numbers of cells, of which each central point counts as ten: 10 points of 2,200 cells."""
COLUMNS_A_ROUND = 100
STARTS = 100
"""Rows at which new columns are sought, beside all centers."""
RECENT = 400
SOME = 300
"""Points with a surplus above the penalty from which columns of all rows are sought."""
MOST_AXES = 4
"""Boxes of more dimensions would be too many."""
GOALS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Shares of the objective by which the program may miss its optimum; the last for cells of one row."""
PROVED = 1e-7
"""A gap that is small enough to stop, over the objective."""
GOAL_OF_CELLS = 3e-4
"""The last goal for cells of several rows: the optimum of cells is about 1e-4 below the optimum of rows."""
REPAIRS = 5
"""Bounds of the surplus for each goal, each with new columns where the last one was too high."""


@dataclass(frozen=True, eq=False)
class PricesBound:
    """A bound by prices of rows."""

    value: float
    """No clusters of the rows cost less."""
    paid: Float64Array | None = None
    """(n,), what each row pays, which adds up to the bound, up to rounding; None if it is unknown.

    The rows of no cluster pay more than it costs.
    """


SETTINGS = CELLS, CELLS_PER_CLUSTER, MOST_CELLS, SUMMARY, MOST_PAIRS, ROUNDS, GOALS, REPAIRS
"""What a search for prices goes by: a checkpoint of others begins anew."""
NOTHING = PricesBound(0.0)
PROGRESS = "pairs", "settled", "rounds", "repairs"
"""Fields of `Proof` that are numbers."""


@dataclass(frozen=True)
class Payers:
    """Rows that pay the squared distance to their nearest center, and the offset of their cell."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    nearest: Float64Array
    """(n,), squared distances to the nearest center."""
    cells: IndexArray
    """(n,), from 0."""
    extents: Extents | None = None
    """Of the micro-clusters whose means the rows are; None if they are rows."""

    def price(self, offsets: Float64Array) -> PricedRows:
        """Return the rows with their prices."""
        paying = self.rows, self.weights, self.nearest + offsets[self.cells]
        return (
            PricedRows(*paying)
            if self.extents is None
            else PricedMicroClusters(*paying, self.extents)
        )

    def columns(
        self, offsets: Float64Array, points: Float64Array, penalty: float
    ) -> tuple[csr_array, Float64Array]:
        """Return the column and the limit of the rows that pay at each point, (p, d), without repeats."""
        priced = self.price(offsets)
        columns, limits, seen = [], [], set()
        for some, margins in priced.margins(points):
            for values, shares in zip(*priced.payments(margins, points[some]), strict=True):
                paying = np.flatnonzero(shares > 0)
                key = paying.tobytes() + shares[paying].tobytes()
                if key in seen:
                    continue
                seen.add(key)
                cells, weights = self.cells[paying], self.weights[paying]
                rises = weights * shares[paying]
                columns.append(csr_array(total(cells, rises, len(offsets))[np.newaxis]))
                limits.append(penalty + float(rises @ offsets[cells] - weights @ values[paying]))
        return vstack(columns, format="csr"), np.array(limits)

    def merge(self, most: int) -> "Payers":
        """Return about `most` means of rows, which pay as much where all their rows pay."""
        if len(self.rows) <= most:
            return self
        groups = split_cells(self.rows, self.cells, len(self.rows) / most)
        n_groups = int(groups.max()) + 1
        weights = total(groups, self.weights, n_groups)
        means = [total(groups, self.weights * column, n_groups) / weights for column in self.rows.T]
        rows = np.stack(means, axis=1)
        beyond = self.nearest - ((self.rows - rows[groups]) ** 2).sum(axis=1)
        cells = np.empty(n_groups, np.intp)
        cells[groups] = self.cells
        nearest = total(groups, self.weights * beyond, n_groups) / weights
        return Payers(rows, weights, nearest, cells)


def split_cells(rows: Float64Array, labels: IndexArray, height: float) -> IndexArray:
    """Return cells of at most `height` rows of one label, (n,), by halves along the widest column."""
    cells, found = np.empty(len(rows), np.intp), 0
    order = np.argsort(labels, kind="stable")
    stack = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    while stack:
        which = stack.pop()
        widths = np.ptp(rows[which], axis=0)
        if len(which) <= max(1.0, height) or widths.max() == 0:
            cells[which], found = found, found + 1
            continue
        which = which[np.argsort(rows[which, widths.argmax()], kind="stable")]
        stack += [which[: len(which) // 2], which[len(which) // 2 :]]
    return cells


@dataclass(frozen=True)
class Pricing:
    """A search for prices."""

    payers: Payers
    """All rows."""
    merged: Payers
    """Some that stand for them."""
    penalty: float
    program: Program
    floor: Float64Array
    """(cells,), offsets with which no row pays."""
    offsets: Float64Array
    """(cells,), the solution of the program so far."""
    starts: Float64Array
    """(p, d), where new columns are sought."""
    recent: Float64Array
    """(q, d), where columns were found: they are sought there too."""
    work: float = MOST_WORK
    """What is left of it; what is known is proved at the end."""

    def center(self, goal: float) -> "Pricing":
        """Return prices whose sum is about `goal` below the best ones for the known columns."""
        barrier = goal / self.program.constraints
        offsets = self.program.center(self.program.inside(self.offsets), barrier)
        return replace(self, offsets=offsets, work=self.work - 10 * self.program.band.work)

    def settle(self, goal: float) -> tuple["Pricing", bool]:
        """Return such prices, and whether no column was missing; the best missing ones are added."""
        centered = self.center(goal)
        points = centered.open_centers(np.concatenate([centered.starts, centered.recent]))
        if not len(points) or centered.work <= 0:
            return centered, True
        return centered.with_columns(centered.merged, points[:COLUMNS_A_ROUND]), False

    def open_centers(self, points: Float64Array) -> Float64Array:
        """Return centers that rows near some points, (p, d), would open, the best ones first."""
        priced = self.merged.price(self.offsets)
        points = np.unique(priced.ascend(points), axis=0)
        surplus = priced.surplus(points)
        best = np.argsort(-surplus, kind="stable")
        return points[best[surplus[best] > self.penalty * (1 + priced.near)]]

    def with_opened(self, points: Float64Array) -> "Pricing":
        """Return the search with the columns of all rows near points, (p, d), where rows would open."""
        some = self.merged.price(self.offsets).ascend(points[:: len(points) // SOME + 1])
        priced = self.payers.price(self.offsets)
        points = np.unique(priced.ascend(np.unique(some, axis=0)), axis=0)
        return self.with_columns(
            self.payers, points[np.argsort(-priced.surplus(points), kind="stable")]
        )

    def with_columns(self, payers: Payers, points: Float64Array) -> "Pricing":
        """Return the search with the columns of some rows at points, (p, d)."""
        columns, limits = payers.columns(self.offsets, points, self.penalty)
        # Rows that would open a cluster without any offset: the clusters known are not the best.
        above = limits - columns @ self.program.low < MARGIN * self.penalty
        low = np.where(above @ (columns > 0), self.floor, self.program.low)
        program = replace(self.program.with_columns(columns, limits), low=low)
        program = program.keep_nearest(self.offsets, 4 * len(self.offsets) + 1000)
        recent = np.concatenate([self.recent, points])[-RECENT:]
        return replace(self, program=program, recent=recent)

    def prove(self, most_pairs: int) -> tuple[PricesBound, Float64Array, int]:
        """Return a bound of the objective, points that rows would open, and the pairs looked at."""
        priced = self.payers.price(self.offsets)
        if not np.abs(priced.prices).max() < 1 / TINY:
            return NOTHING, self.starts[:0], 0
        found = greatest_surplus(priced, self.penalty, most_pairs)
        paid, least = priced.paid()
        share = min(1.0, self.penalty / found.bound * (1 - EPSILON))
        bound = PricesBound(least * share * (1 - EPSILON), paid * share)
        return bound, found.points, found.pairs


def first_pricing(
    rows: Float64Array,
    weights: Float64Array,
    penalty: float,
    centers: Float64Array,
    micro: MicroRows | None = None,
) -> Pricing:
    """Return prices between the squared distances to the nearest and to the second nearest center.

    Rows are (n, d), weights (n,), centers (k, d); `micro` if the rows are means of micro-clusters.
    """
    distances, labels = KDTree(centers).query(rows, k=[1, 2])
    nearest, second = (distances**2).T
    labels = labels[:, 0]
    n_cells = min(max(CELLS, CELLS_PER_CLUSTER * len(centers)), MOST_CELLS)
    cells = split_cells(rows, labels, len(rows) / n_cells)
    n_cells = int(cells.max()) + 1
    masses = total(cells, weights, n_cells)
    shares = penalty / total(labels, weights, len(centers))[labels]
    room = np.minimum(second - nearest, 50 * shares) + MARGIN * shares
    low = -MARGIN * total(cells, weights * shares, n_cells) / masses
    high = total(cells, weights * room, n_cells) / masses
    np.minimum.at(high, cells, penalty / weights - nearest)
    floor = np.full(n_cells, np.inf)
    extents = None if micro is None else Extents.about(centers[labels], micro)
    np.minimum.at(floor, cells, -nearest if extents is None else -extents.farthest())
    program = Program(
        masses, low, np.maximum(high, low / 2), csr_array((0, n_cells)), np.empty(0), penalty
    )
    payers = Payers(rows, weights, nearest, cells, extents)
    merged = payers.merge(SUMMARY)
    spread = np.linspace(0, len(merged.rows) - 1, min(STARTS, len(merged.rows))).astype(np.intp)
    some = merged.rows[np.argsort(merged.cells, kind="stable")[spread]]
    starts = np.concatenate([centers, between(centers), some])
    offsets = (low + program.high) / 2
    first = Pricing(payers, merged, penalty, program, floor + low, offsets, starts, starts[:0])
    return first.with_columns(payers, centers)


def between(centers: Float64Array) -> Float64Array:
    """Return the middles between each center and its nearest ones, (m, d)."""
    others = min(5, len(centers))
    near = KDTree(centers).query(centers, k=list(range(1, others + 1)))[1][:, 1:]
    middles: Float64Array = (centers[:, np.newaxis] + centers[near]) / 2
    return np.unique(middles.reshape(-1, centers.shape[1]), axis=0)


@dataclass(frozen=True)
class Proof:
    """A search for prices between two of its rounds, and the best that it has proved."""

    pricing: Pricing
    upper: float
    """About the objective."""
    goals: tuple[float, ...]
    """Goals that are not reached, over `upper`; none: the search is over."""
    pairs: int
    """Pairs of boxes and rows that are left to all proofs."""
    best: PricesBound = NOTHING
    settled: bool = False
    """Whether all columns that the starts lead to are known."""
    rounds: int = 0
    """Since prices were last proved."""
    repairs: int = 0

    @classmethod
    def begin(cls, pricing: Pricing, upper: float) -> "Proof":
        """Return a search before its first round."""
        last = GOALS[-1] if len(pricing.payers.rows) <= CELLS else GOAL_OF_CELLS
        goals = tuple(max(goal, last) for goal in GOALS if goal * 3 > last)
        return cls(pricing, upper, goals, MOST_PAIRS)

    def next(self) -> "Proof":
        """Return the search after a round of new columns, or after its prices are proved."""
        goal = self.goals[0]
        if not self.settled:
            pricing, settled = self.pricing.settle(goal * self.upper)
            settled, rounds = settled or self.rounds + 1 == ROUNDS, self.rounds + 1
            return replace(self, pricing=pricing, settled=settled, rounds=rounds)
        if (goal == GOALS[0] and self.pricing.work > 0) or self.repairs == REPAIRS:
            return self._next_goal()
        bound, points, looked_at = self.pricing.prove(self.pairs // 2)
        best = max(self.best, bound, key=lambda each: each.value)
        after = replace(self, best=best, pairs=self.pairs - looked_at)
        if not len(points) or min(after.pairs, self.pricing.work) <= 0:
            return after._next_goal()
        repaired = self.pricing.with_opened(points)
        return replace(after, pricing=repaired, settled=False, rounds=0, repairs=self.repairs + 1)

    def _next_goal(self) -> "Proof":
        over = min(self.pairs, self.pricing.work) <= 0
        over |= self.best.value > (1 - PROVED) * self.upper
        goals = () if over else self.goals[1:]
        return replace(self, goals=goals, settled=False, rounds=0, repairs=0)

    def values(self) -> Arrays:
        """Return what changes in a search, by name, arrays of any shape (...), for a checkpoint."""
        pricing, best = self.pricing, self.best
        program, columns = pricing.program, pricing.program.columns
        found = {
            "data": columns.data,
            "indices": columns.indices,
            "indptr": columns.indptr,
            "limits": program.limits,
            "low": program.low,
            "offsets": pricing.offsets,
            "recent": pricing.recent,
            "work": pricing.work,
            "goals": self.goals,
            "best": best.value,
            "paid": np.empty(0) if best.paid is None else best.paid,
            **{name: getattr(self, name) for name in PROGRESS},
        }
        return {name: np.asarray(value) for name, value in found.items()}

    def at(self, values: Arrays) -> "Proof":
        """Return the same search at the round with these values of its arrays, (...)."""
        limits = values["limits"]
        entries = values["data"], values["indices"], values["indptr"]
        columns = csr_array(entries, (len(limits), len(values["low"])))
        program = replace(self.pricing.program, columns=columns, limits=limits, low=values["low"])
        pricing = replace(
            self.pricing,
            program=program,
            offsets=values["offsets"],
            recent=values["recent"],
            work=values["work"].item(),
        )
        paid = values["paid"]
        best = PricesBound(values["best"].item(), paid if len(paid) else None)
        progress = {name: values[name].item() for name in PROGRESS}
        goals = tuple(values["goals"].tolist())
        return replace(self, pricing=pricing, goals=goals, best=best, **progress)


def best_prices(pricing: Pricing, upper: float, checkpoint: Checkpoint) -> PricesBound:
    """Return the best bound that the search for prices proves; `upper` is about the objective.

    The checkpoint is of the same rows, penalty and centers.
    """
    with checkpoint:
        proof = Proof.begin(pricing, upper)
        proof = checkpoint.restore(proof.at) or proof
        while proof.goals:
            proof = proof.next()
            checkpoint.update(proof.values(), over=not proof.goals)
    return proof.best


def prices_bound(
    rows: Float64Array,
    weights: Float64Array,
    penalty: float,
    upper: float,
    centers: Float64Array,
    known: float = 0.0,
) -> PricesBound:
    """Return a lower bound of inertia + penalty * k of any clusters, rounding included.

    It is near the optimum if `MOST_AXES` main axes hold most of the rows' squared distances: rows
    are projected on them.

    Parameters
    ----------
    rows : (n, d)
    weights : (n,), > 0
    penalty : number > 0
    upper : objective of some clusters of these rows
    centers : (k, d), k > 0, good centers; the bound is true for any, and near only for these
    known : a bound; if projected rows cannot have a higher one, no prices are sought

    Returns
    -------
    PricesBound
        At least the penalty.  What rows pay is unknown if they were projected.
    """
    least = PricesBound(penalty)
    if len(centers) > MOST_CELLS:
        return least
    with np.errstate(all="ignore"):  # prices that are not finite prove nothing: see `proved`
        on_axes = MainAxes.of(rows, weights, penalty, len(centers), MOST_AXES)
        if not TINY < on_axes.penalty < 1 / TINY:
            return least
        points = on_axes.project(centers)
        if on_axes.bound(_cost(on_axes, points), upper) <= known:
            return least
        pricing = first_pricing(on_axes.rows, on_axes.weights, on_axes.penalty, points)
        found = best_prices(pricing, upper * on_axes.unit, Checkpoint(None, ""))
    value = on_axes.bound(found.value, upper)
    if value <= penalty or found.paid is None or on_axes.rest > 0:
        return PricesBound(max(penalty, value))
    return PricesBound(value, found.paid / on_axes.unit)


def _cost(on_axes: MainAxes, points: Float64Array) -> float:
    """Return the objective of the projected rows at points, (k, q): none of their bounds is higher."""
    rows = np.ascontiguousarray(on_axes.rows)
    squared = nearest_squared(rows, Centers(points))[1]
    return float(on_axes.weights @ squared) + on_axes.penalty * len(points)
