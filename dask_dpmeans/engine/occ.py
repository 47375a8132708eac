"""Optimistic concurrency control (Pan et al. 2013), for any method whose rows may object.

Every block runs a serial rule on its own rows against the state as it was; the coordinator runs the same rule once
more on the rows that objected, and the rows are scanned again until none does.  What comes out equals one serial sweep
over the rows in *witness order*: the opened rows first, in the order in which they opened, then the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from dask_dpmeans.engine.plan import Source, doublings
from dask_dpmeans.kernels.block import Block, Int64Array

State = TypeVar("State")
Answer = TypeVar("Answer")


class Rule(Protocol[State, Answer]):
    """A serial rule, as a value."""

    def scan(self, state: State, block: Block) -> Answer:
        """What a block answers, its own objections settled among themselves."""
        ...

    def merge(self, state: State, left: Answer, right: Answer) -> Answer:
        """The answer of two neighboring runs of blocks, both scanned against `state`."""
        ...

    def validate(self, state: State, answer: Answer) -> tuple[State, Int64Array]:
        """The state after the objections that stand, and the numbers of the rows that opened something."""
        ...


@runtime_checkable
class LastingRule(Rule[State, Answer], Protocol[State, Answer]):
    """A rule whose answers may hold in the next pass too."""

    def keep(self, answer: Answer, most_bytes: int) -> Any:
        """What to keep of a shard's answer for later passes; None where that would be more than `most_bytes`."""
        ...

    def standing(self, earlier: Self, before: State, after: State, kept: Mapping[int, Any]) -> dict[int, Any]:
        """What is kept of those shards that answer the state `after` as they did the one before, by an earlier rule."""
        ...

    def restore(self, state: State, kept: Any) -> Answer:
        """The answer of which that was kept."""
        ...


@dataclass(frozen=True)
class Round(Generic[State, Answer]):
    """One pass of a rule against a fixed state, as a reduction."""

    rule: Rule[State, Answer]
    state: State

    def chunk(self, block: Block) -> Answer:
        """The answer of one block."""
        return self.rule.scan(self.state, block)

    def combine(self, left: Answer, right: Answer) -> Answer:
        """The answer of two neighboring runs of blocks."""
        return self.rule.merge(self.state, left, right)


@dataclass(frozen=True)
class LastingRound(Round[State, Answer]):
    """The same, of a rule whose answers last."""

    rule: LastingRule[State, Answer]

    def keep(self, answer: Answer, most_bytes: int) -> Any:
        """What to keep of a shard's answer for later passes; None where that would be more than `most_bytes`."""
        return self.rule.keep(answer, most_bytes)

    def standing(self, earlier: "LastingRound[State, Answer]", kept: Mapping[int, Any]) -> dict[int, Any]:
        """What is kept of those shards that answer as they did in an earlier pass."""
        if type(earlier.rule) is not type(self.rule):
            return {}
        return self.rule.standing(earlier.rule, earlier.state, self.state, kept)

    def restore(self, kept: Any) -> Answer:
        """The answer of which that was kept."""
        return self.rule.restore(self.state, kept)


def round_of(rule: Rule[State, Answer], state: State) -> Round[State, Answer]:
    """One pass of a rule, which leaves out shards whose answers last where the rule knows them."""
    return LastingRound(rule, state) if isinstance(rule, LastingRule) else Round(rule, state)


@dataclass(frozen=True)
class Settled(Generic[State, Answer]):
    """The end of a sweep: no row objects any more."""

    state: State
    answer: Answer
    """Of the last pass over all rows, the one in which none objected."""
    opened: Int64Array
    """Numbers of the rows that opened something, in order: the head of the witness order."""
    rows_read: int


def settle(
    source: Source, rule: Rule[State, Answer], state: State, *, gradually: bool = False
) -> Settled[State, Answer]:
    """Sweep until no row objects.

    With `gradually` the first rounds see runs of blocks that double, each once, so that where nearly every row
    would object at first the objections of a round stay few.
    """
    opened: list[Int64Array] = []
    rows_read = 0
    plan = source.plan
    everything = range(plan.n_blocks)
    for blocks in doublings(plan.n_blocks) if gradually else ():
        answer = source.fold(round_of(rule, state), blocks, "scan")
        rows_read += plan.rows_of(blocks)
        state, rows = rule.validate(state, answer)
        opened.append(rows)
    while True:
        answer = source.fold(round_of(rule, state), everything, "scan")
        rows_read += plan.n_rows
        state, rows = rule.validate(state, answer)
        opened.append(rows)
        if not rows.size:
            return Settled(state, answer, np.concatenate(opened), rows_read)
