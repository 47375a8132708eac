"""`RowSource`: the source that every method works on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from dask_dpmeans.engine.checkpoints import CheckpointStore, digest
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.occ import ReusableRound
from dask_dpmeans.engine.plan import Answer, Carried, Kernel, Plan, Reduction, Shared, Sink
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.sources.categories import Categories
from dask_dpmeans.sources.executors.base import call_job
from dask_dpmeans.sources.executors.process import one_blas_thread
from dask_dpmeans.sources.formats.cube import CubeRows
from dask_dpmeans.sources.jobs import CarryJob, FoldJob, KeepJob, Known, MapJob
from dask_dpmeans.sources.layout import Layout
from dask_dpmeans.sources.names import Names, used_names
from dask_dpmeans.sources.progress import Count
from dask_dpmeans.sources.shards import Prepare

if TYPE_CHECKING:
    from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
    from dask_dpmeans.sources.executors.threads import Threads

PARTS = 8
"""Tasks of a fold of few shards, or up to twice as many; a cluster may have to copy the shard."""
KEPT_BYTES = 2**24
"""Bytes that are kept of the answers of all shards, and travel in each pass."""
MOST_KEPT = 2**14
"""Bytes that are kept of the answer of one shard, at most."""


@dataclass
class Ledger:
    """The last pass and small answers, the one mutable part of a source.

    No answer depends on it.  Shards whose answers still hold are not read again.
    """

    reduction: Any = None
    kept: Mapping[int, Any] = field(default_factory=dict)
    """Kept answers of shards, by their first rows."""
    known: dict[tuple[object, ...], Any] = field(default_factory=dict)
    """Answers of `RowSource.once`, by the preparation of the rows and the name."""


@dataclass(frozen=True)
class RowSource:
    """Checked rows, cut into shards, and the executor that works on them."""

    plan: Plan
    shards: tuple[Any, ...]
    """Shards as the executor takes them."""
    executor: "DaskTasks | Threads"
    prepare: Prepare
    summary: Summary
    """Column statistics of the rows as kernels see them."""
    layout: Layout
    """The plan of the input, before a scale or features were known."""
    resident: bool
    """Whether rows are in memory; then threads may share a shard, and all shards are read."""
    room: int = 0
    """Bytes that may be kept in memory, beside the rows if they are there too."""
    n_values: int | None = None
    """Stored values of CSR rows; None for dense rows."""
    cube: CubeRows | None = None
    """The cube that the rows are samples of, if any."""
    checkpoints: CheckpointStore | None = field(default=None, compare=False)
    """Store of the progress of searches."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)
    """Answers of shards that may last, if rows are read in each pass."""

    @property
    def n_features(self) -> int:
        """Number of columns that kernels see."""
        if self.prepare.sparse:
            return self.layout.stored_columns
        return len(self.summary.sums)

    @property
    def used_names(self) -> Names | None:
        """Names of the columns that are used, if the input is a table."""
        return used_names(self.layout.column_names, self.prepare.columns)

    @property
    def used_columns(self) -> tuple[int, ...] | None:
        """Numbers of the columns that are used, in the input; None if all are."""
        return self.prepare.columns

    @property
    def categories(self) -> Categories:
        """Categories of columns of codes, by the number of the column among those that are used."""
        used = self.prepare.columns or range(self.layout.stored_columns)
        categories = self.layout.categories
        return {
            number: categories[column] for number, column in enumerate(used) if column in categories
        }

    @property
    def scale(self) -> Float64Array | None:
        """(d,) divisors of the columns, if any."""
        return self.prepare.scale

    @property
    def identity(self) -> str:
        """Digest that tells these rows from others, as far as their summary does."""
        return digest(self.plan.n_rows, self.plan.block_rows, self.scale, self.summary)

    @property
    def worker_room(self) -> float:
        """Bytes of a worker for all but the rows; infinite in this process."""
        return self.layout.resources.worker_room

    def fold(
        self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold"
    ) -> Answer:
        """Reduce all rows, or the rows of a run of blocks that is a subtree of the merge tree."""
        whole = blocks is None or len(blocks) == self.plan.n_blocks
        if whole and not self.resident and isinstance(reduction, ReusableRound):
            return self._fold_changed(reduction, name)
        job = FoldJob(reduction, self.prepare, self.plan.block_rows)
        parts = min(self.executor.threads, PARTS) if self.resident else 1
        return self.executor.fold(job, self._pieces(blocks, parts), name)

    def _fold_changed(self, reduction: ReusableRound[Any, Answer], name: str) -> Answer:
        """Reduce all rows, but read only shards whose answers may have changed."""
        last, rule, standing = self.ledger, reduction.rule, {}
        before = last.reduction
        if isinstance(before, ReusableRound) and type(before.rule) is type(rule) and last.kept:
            with one_blas_thread():
                standing = rule.unchanged(before.rule, before.state, reduction.state, last.kept)
        pieces = self._pieces(None)
        for number, start in enumerate(range(0, self.plan.n_rows, self.plan.shard_rows)):
            if start in standing:
                [shard] = self.executor.wrap([Known(standing[start])])
                pieces[number] = shard, pieces[number][1]
        most_bytes = min(MOST_KEPT, KEPT_BYTES // self.plan.n_shards)
        answer, kept = self.executor.fold(
            KeepJob(reduction, self.prepare, self.plan.block_rows, most_bytes), pieces, name
        )
        last.reduction, last.kept = reduction, standing | kept
        return answer

    def once(self, name: str, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returned when it was last called for these rows by this name.

        It is called if that is not known.
        """
        known, key = self.ledger.known, (*self.prepare.key, name)
        if key not in known:
            known[key] = work()
        return known[key]

    def carry(
        self, take: Callable[[Carried, Block], Carried], state: Carried, name: str = "carry"
    ) -> Carried:
        """Take a state through all blocks one after the other, in row order."""
        job = CarryJob(take, self.prepare, self.plan.block_rows)
        return self.executor.carry(job, state, self._pieces(None), name)

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block, and give its answers to `sink` in runs of label chunks.

        Return the small answers of the sink, in row order.
        """
        job = MapJob(kernel, sink, self.prepare, self.plan.block_rows, self.plan.chunk_rows)
        return list(chain.from_iterable(self.executor.map(job, self._pieces(None), name)))

    def here(self, job: Callable[[Self], Answer], name: str = "run") -> Answer:
        """Run a job on these rows in this thread; its passes run on the executor."""
        with Count.of_jobs(self.executor.on_pass, name, [job]) as count:
            answer = call_job(job, self, partial(count.say, 0))
            count.say(0)
            return answer

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run"
    ) -> list[Answer]:
        """Run jobs on one shared input, side by side if there are workers."""
        given: Any = shared
        if isinstance(shared, InMemoryRows):
            given = replace(shared, checkpoints=self.checkpoints, worker_room=self.worker_room)
        return self.executor.run(jobs, given, name)

    def _pieces(self, blocks: range | None, wanted: int = 1) -> list[tuple[Any, range]]:
        among = range(self.plan.n_blocks) if blocks is None else blocks
        return [(self.shards[shard], which) for shard, which in self.plan.pieces(among, wanted)]
