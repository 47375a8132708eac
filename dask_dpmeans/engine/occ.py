"""Optimistic concurrency control (Pan et al. 2013), for methods whose rows may object to a state.

Every block runs a serial rule on its own rows against the state at the start of the pass.  The
coordinator runs the same rule once more on the rows that objected.  Then the rows are scanned
again, until no row objects.  The result equals one serial sweep over the rows in *witness order*:
first the opened rows, in the order in which they opened, then all others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import numpy as np

from dask_dpmeans.engine.plan import Answer, Source, doublings
from dask_dpmeans.kernels.block import Block, Int64Array, takes_csr

State = TypeVar("State")
Kept = TypeVar("Kept")


class Rule(Protocol[State, Answer]):
    """A serial rule, as a value."""

    def scan(self, state: State, block: Block) -> Answer:
        """Return the answer of a block, with its objections settled among themselves."""

    def merge(self, state: State, left: Answer, right: Answer) -> Answer:
        """Return the answer of two neighboring runs of blocks, both scanned against `state`."""

    def validate(self, state: State, answer: Answer) -> tuple[State, Int64Array]:
        """Return the state after the valid objections, and the numbers of opening rows, (m,)."""


class ReusableRule(Rule[State, Answer], Protocol[State, Answer]):
    """A rule whose answers may hold in the next pass, so that shards need not be read again."""

    def keep(self, answer: Answer, most_bytes: int) -> Any:
        """Return what to keep of the answer of a shard; None if that is more than `most_bytes`."""

    def unchanged(
        self, earlier: Self, before: State, after: State, kept: Mapping[int, Kept]
    ) -> dict[int, Kept]:
        """Return the kept parts of shards that answer `after` as they answered `before`."""

    def restore(self, state: State, kept: Any) -> Answer:
        """Return the answer of a shard from what was kept of it."""


@dataclass(frozen=True)
class Round(Generic[State, Answer]):
    """One pass of a rule against a fixed state, as a reduction."""

    rule: Rule[State, Answer]
    state: State

    @property
    def takes_csr(self) -> bool:
        """Whether the rule takes CSR rows against this state."""
        return takes_csr(self.rule) and takes_csr(self.state)

    def chunk(self, block: Block) -> Answer:
        """Scan one block."""
        return self.rule.scan(self.state, block)

    def combine(self, left: Answer, right: Answer) -> Answer:
        """Merge the answers of two neighboring runs of blocks."""
        return self.rule.merge(self.state, left, right)


@dataclass(frozen=True)
class ReusableRound(Round[State, Answer]):
    """One pass of a rule whose answers may hold in the next pass too."""

    rule: ReusableRule[State, Answer]


def round_of(rule: Rule[State, Answer], state: State) -> Round[State, Answer]:
    """Return one pass of a rule; it skips unchanged shards if the rule can tell them."""
    if hasattr(rule, "unchanged"):  # isinstance of a protocol took 50 microseconds a pass
        return ReusableRound(cast(ReusableRule[State, Answer], rule), state)
    return Round(rule, state)


@dataclass(frozen=True)
class Sweep(Generic[State, Answer]):
    """The end of a sweep, when no row objects any more."""

    state: State
    answer: Answer
    """Answer of the last pass over all rows."""
    opened: Int64Array
    """Numbers of the rows that opened something, in order: the head of the witness order."""
    rows_read: int


def settle(
    source: Source, rule: Rule[State, Answer], state: State, *, gradually: bool = False
) -> Sweep[State, Answer]:
    """Sweep until no row objects.

    With `gradually` the first rounds read runs of blocks that double, each run once.  So the
    objections of a round stay few even if nearly every row objects at first.
    """
    opened: list[Int64Array] = []
    rows_read, plan = 0, source.plan
    everything = range(plan.n_blocks)
    prefixes = doublings(plan.n_blocks if gradually else 0)
    while True:
        blocks = next(prefixes, everything)
        answer = source.fold(round_of(rule, state), blocks, "scan")
        rows_read += plan.rows_of(blocks)
        state, rows = rule.validate(state, answer)
        opened.append(rows)
        if blocks is everything and not rows.size:
            return Sweep(state, answer, np.concatenate(opened), rows_read)
