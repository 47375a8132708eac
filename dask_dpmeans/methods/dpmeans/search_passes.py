"""Passes of the search: moves and means from given places, until they end.

Starts, trials, crossovers and populations are made of these.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.engine.history import GAINS, MoveCounts
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.fusion import PairCosts
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.methods.dpmeans.batch import Parameters
from dask_dpmeans.methods.dpmeans.crossover import FINER
from dask_dpmeans.methods.dpmeans.fusion import fuse
from dask_dpmeans.methods.dpmeans.moves import (
    Findings,
    Placement,
    apply_moves,
    around,
    beyond,
    gains_of,
    has_momentum,
    no_moves,
    profitable_moves,
)
from dask_dpmeans.methods.dpmeans.search_state import NO_CENTERS, State
from dask_dpmeans.methods.dpmeans.trials import SHARES

COUNTED = (0.5, 1.0)
"""Range of the part of what rows lose that a fusion counts, drawn so that fusions of the same two differ.

Fused pairs of 12 quick searches of mnist10 at penalty 1,000, after 5 passes of means: on average 53
below the lower of the two with all of it, 97 below with .7, 15 with .5, and 645 above with .35."""
FREE_PASSES = 2
"""Passes after the change of a trial in which only means and children move."""
MOST_PASSES = 60
"""Most passes in which a trial settles."""
FINEST = 100
"""After the last trial, passes go on until J falls by less than tol / FINEST of it."""
CENTER_NUMBERS = 8, 140
"""Memory of a pass for each cluster, as for sweeps.

The peaks of passes of a search on a worker were 6.5 to 10 float64 for each column and 140 more, in 2 and 16 columns.
"""
HOPE = 5
"""A trial ends if this many times the gain of its last pass would not make it lower."""
NO_MOVES, NO_GAINS = MoveCounts(), np.zeros(len(GAINS))


@dataclass(frozen=True)
class Passes(Parameters):
    """A search that moves centers by what a pass over the rows tells."""

    seed: int = 0
    """Seed of all random numbers."""

    def reduction(self, centers: Float64Array) -> MoveScan:
        """Return the work of a pass at these centers, (k, d)."""
        children = self.children_of(centers, self._random(0))
        return MoveScan(self.kernel_centers(centers), children, math.inf)

    def children_of(self, centers: Float64Array, random: np.random.Generator) -> Float64Array:
        """Return children, (k, 2, d), at the distance at which a row opens a cluster."""
        radii = np.full(len(centers), math.sqrt(self.price.threshold(len(centers))))
        return around(centers, radii, random, self.divergence)

    def _pass(self, source: Source, state: State) -> tuple[State, float]:
        """Return the state of a pass against the next centers, and the savings of splits."""
        places, passes = state.next_places, 1
        ahead = beyond(places, state.earlier)
        found = self._probe(source, ahead)
        if ahead is not places and not found.objective < state.objective:
            found, passes = self._probe(source, places), 2
        moves = MoveCounts(*state.planned.tolist())
        after = self._commit(state, found, moves, state.promised).after_passes(source, passes)
        finer = FINER
        if state.finest and state.share == len(SHARES):
            finer = FINEST
        small = state.objective - after.objective < self.tol / finer * after.objective
        lower = after.objective < state.objective
        if lower and self._has_momentum(source) and not (state.planned + after.planned).any():
            after = replace(after, earlier=state.next_centers)
        return replace(after, settled=after.settled and small), float(found.savings.sum())

    def settle_state(
        self,
        source: Source,
        start: State,
        places: Placement,
        goal: float,
        random: np.random.Generator,
    ) -> State:
        """Return the state, after a start, at which means and then moves from other places end."""
        found, passes = self.settle(source, self._relax(source, places, random), goal, random)
        return self._commit(start, found).after_passes(source, FREE_PASSES + passes)

    def settle(
        self, source: Source, places: Placement, goal: float, random: np.random.Generator
    ) -> tuple[Findings, int]:
        """Go on with moves and means while they gain; return the lowest findings and the passes."""
        best, earlier = self._probe(source, places), None
        for passes in range(2, MOST_PASSES + 1):
            moves = profitable_moves(best)
            places = apply_moves(best, moves, random)
            if moves.any:
                earlier = None
            ahead = beyond(places, earlier)
            found = self._probe(source, ahead)
            gained = best.objective - found.objective
            if ahead is not places and not gained > 0:
                earlier = None
                continue
            if gained > 0:
                if self._has_momentum(source) and not moves.any:
                    earlier = best.means
                best = found
            hopeless = best.objective - HOPE * gained > goal
            little = not moves.any and gained < self.tol / FINER * found.objective
            if not gained > 0 or hopeless or little:
                return best, passes
        return best, MOST_PASSES

    def _relax(self, source: Source, places: Placement, random: np.random.Generator) -> Placement:
        """Return centers and children after some passes of means alone."""
        earlier = None
        for _ in range(FREE_PASSES):
            found = self._probe(source, places)
            places = beyond(apply_moves(found, no_moves(found), random), earlier)
            if self._has_momentum(source):
                earlier = found.means
        return places

    def fused(
        self, source: Source, one: Placement, two: Placement, random: np.random.Generator
    ) -> Placement | None:
        """Return the better of two placements, region by region; None unless it has centers of both.

        This takes a pass.
        """
        sizes = len(one.centers), len(two.centers)
        pairs = PairCosts(self.kernel_centers(one.centers), self.kernel_centers(two.centers))
        sums, counted = source.fold(pairs, name="fuse"), float(random.uniform(*COUNTED))
        kept, taken = fuse(sums, sizes, self.price.threshold(sizes[0]), counted)
        if not (kept.any() and taken.any()):
            return None
        centers = np.concatenate([one.centers[kept], two.centers[taken]])
        children = np.concatenate([one.children[kept], two.children[taken]])
        return Placement(centers, children, one.candidates)

    def _probe(self, source: Source, places: Placement, threshold: float = math.inf) -> Findings:
        """Run a pass; rows that cost more than `threshold` object."""
        batch.check_room(CENTER_NUMBERS, places.centers.shape, source.worker_room, self.price)
        centers = self.kernel_centers(places.centers)
        probing = MoveScan(centers, places.children, threshold, places.candidates)
        probe, rule = source.fold(probing, name="probe"), (self.price, self.divergence)
        outliers = places.candidates, self.most
        return Findings(places.centers, places.children, probe, *rule, *outliers)

    def _commit(
        self,
        state: State,
        found: Findings,
        moved: MoveCounts = NO_MOVES,
        gains: Float64Array = NO_GAINS,
    ) -> State:
        """Return the state of a pass, after `moved` with `gains`, (3,), and the next pass."""
        weighty = found.weights > 0
        k = found.alive
        batch.check_number(k, self.max_clusters, self.price)
        moves = profitable_moves(found)
        places = apply_moves(found, moves, self._random(state.passes))
        deletes = np.count_nonzero(moves.deleted & weighty)
        splits = np.count_nonzero(moves.split) + len(moves.opened)  # also those out of outliers
        planned = len(moves.merged), splits, deletes
        objective = math.inf
        if k:
            objective = self.objective(found.inertia, k)
        return replace(
            state,
            step=state.step + 1,
            centers=found.centers[weighty],
            children=found.children[weighty],
            next_centers=places.centers,
            next_children=places.children,
            earlier=NO_CENTERS,
            next_candidates=places.candidates or state.next_candidates,
            outlier_weight=found.outlier_weight,
            outlier_cost=found.outlier_cost,
            weights=found.weights[weighty],
            inertias=found.probe.inertias[weighty],
            objective=objective,
            opened=np.zeros(0, np.int64),
            deaths=found.k - k,
            moves=moved,
            gains=gains,
            planned=np.array(planned, np.int64),
            promised=gains_of(found, moves),
            settled=not any(planned),
        )

    def _places(self, centers: Float64Array, random: np.random.Generator) -> Placement:
        return Placement(centers, self.children_of(centers, random))

    def _random(self, passes: int) -> np.random.Generator:
        return stream(self.seed, Stream.SEARCH, passes)

    def _has_momentum(self, source: Source) -> bool:
        return has_momentum(self.divergence, source.plan.n_rows)
