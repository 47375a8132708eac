"""What a fit will cost, from the metadata of its input and a few of its rows; nothing is written."""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

from dask_dpmeans.api import description
from dask_dpmeans.api import job as runs
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.occ import settle
from dask_dpmeans.engine.plan import Reduction, power_of_two
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.methods.dpmeans.starts import OPTIMISM
from dask_dpmeans.methods.dpmeans.trials import SHARES
from dask_dpmeans.sources import (
    RESIDENT_SHARE,
    Layout,
    Names,
    Storage,
    Threads,
    check_centers,
    decoded_bytes,
    decoded_rows,
    format_bytes,
    is_stored,
    lay_out,
    read_rows,
    stored_bytes,
    why_processes,
)
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.text import counted

SAMPLE_BLOCKS = 8
"""Blocks of the first shard that are read and scanned, at most."""
SEARCH_ROWS = 2**14
"""Of these rows, the most that are searched, ..."""
SEARCH_STEPS = 20
"""... in so many steps; of sift at a penalty that ends with 929 clusters, 917 were there after 18."""
SEARCH_PRODUCTS = 2**31
"""Multiplications of a step, about, at which the search stops: 1,024 clusters of d = 128; one at 929 took 0.07 s."""
SEARCH_COLUMNS = 2**7
"""Columns below which a step takes no less time."""
SMALL_CHUNK = 2**18
"""Bytes; from chunks of 256 KB rows (d = 64, zstd) were read in 1.5, of 64 KB in 2.1 times the time of 4 MB."""
GOOD_CHUNK = 2**22
"""Bytes."""
FEW_CHUNKS = 16
"""Of a shard, however small they are."""
MOST_DECODES = 1.1
"""Times that a chunk is decoded, on average."""
TINY = float(np.finfo(np.float64).tiny)
"""The least price."""

Target = Literal["new", "refused", "removed", "resumed"]
"""What a fit would do to the run that is there: nothing, as there is none; refuse; remove it; go on with it."""


@dataclass(frozen=True)
class Sample:
    """What the first rows took one thread."""

    n_rows: int
    n_clusters: int
    """Of the pass."""
    clusters_are: str
    """Where they come from."""
    read_seconds: float
    """Reading and decoding."""
    scan_seconds: float
    """One pass in memory at so many clusters."""


@dataclass(frozen=True)
class Estimate:
    """What a fit will work on, and what a pass of it will cost."""

    run: str
    target: Target
    n_rows: int
    n_columns: int
    """Of the input."""
    n_features: int
    """Columns that are used."""
    dtype: str
    """Of the input."""
    block_rows: int
    n_blocks: int
    shard_rows: int
    n_shards: int
    threads: int
    """Of all workers."""
    stored_bytes: int | None
    """Of rows and weights in their stores, metadata included; None where a store cannot say without reading them."""
    decoded_bytes: int
    """Of rows and weights."""
    resident: bool
    """Whether rows are read once and kept in memory; otherwise each pass reads them."""
    worker_memory: int
    """Bytes that the plan takes a worker to have."""
    thread_memory: int
    """Bytes, a thread's share of them."""
    thread_bytes: int
    """Of the rows that a thread holds: its shards, or the piece that it works on and the one read ahead; and of sparse
    rows a block that is made dense."""
    sample_rows: int
    """Rows of the first shard that were read and scanned."""
    sample_clusters: int
    """The first centers and those that these rows open, or what a search of some of them ends with."""
    load_seconds: float
    """Reading all rows once, where they are kept; 0 where each pass reads them."""
    pass_seconds: float
    """One pass at `sample_clusters`."""
    basis: str
    """What the seconds are, and how they were scaled."""
    advice: tuple[str, ...]
    """What about the input makes a fit slower or less safe than it could be."""


@dataclass(frozen=True)
class Sampling:
    """Reading the first rows, clustering and scanning them, as a job."""

    method: batch.Method | search.Method
    n_rows: int
    scale: Float64Array | str | None

    def __call__(self, layout: Layout) -> Sample:
        """What it took."""
        started = perf_counter()
        shard = layout.first(self.n_rows)
        read_seconds = perf_counter() - started
        rows = layout.held(shard, self.scale)
        if isinstance(self.method, search.Method):
            centers, clusters_are = searched(rows, self.method, layout.plan.n_rows)
        else:
            centers, clusters_are = opened(rows, self.method)
        reduction: Reduction[Any] = self.method.reduction(centers)
        started = perf_counter()
        rows.fold(reduction)
        return Sample(self.n_rows, len(centers), clusters_are, read_seconds, perf_counter() - started)


def opened(rows: HeldRows, method: batch.Method) -> tuple[Float64Array, str]:
    """(k, d), the first centers and those that the first rows open, and what to call them."""
    first = method.kernel_centers(method.first_centers(rows))
    swept = settle(rows, batch.Openings(method.price), first, gradually=True)
    method.objective(swept.answer.moments.inertia, len(swept.state))  # it must be finite
    return swept.state.values, (
        f"the first centers and those that the first {counted(rows.plan.n_rows, 'row')} open; all rows may open more, "
        "and a pass then takes longer"
    )


def searched(rows: HeldRows, method: search.Method, n_rows: int) -> tuple[Float64Array, str]:
    """(k, d), where moves and means lead on some of the first rows, and what to call these centers.

    Squared error grows with the number of rows, so that a cluster of some rows costs their share of the penalty; and it
    costs the optimism of their squared error too, as on a coreset.
    """
    every = -(-rows.plan.n_rows // SEARCH_ROWS)
    weights = None if rows.weights is None or not rows.weights[::every].any() else rows.weights[::every].copy()
    some = HeldRows(rows.rows[::every].copy(), weights, rows.scale)
    count, d = some.rows.shape
    most, share = SEARCH_PRODUCTS // (count * max(d, SEARCH_COLUMNS)), count / n_rows
    price = max(method.penalty * share, TINY)
    found = _moved(some, method, price, most)
    if count < n_rows:
        price += OPTIMISM * (1 - share) * float(found.inertias.sum()) / count
        found = _moved(some, method, price, most)
    method.objective(float(found.inertias.sum()), len(found.centers))  # it must be finite
    which, end = f"a search of {counted(count, 'row')}", "ends"
    if count < n_rows:
        which, end = f"{which}, a cluster at their share of the penalty,", "ends; all rows may have more"
    if len(found.centers) > most:
        return found.centers, f"at which {which} was stopped; all rows may have many more, and a pass then takes longer"
    return found.centers, f"with which {which} {end}"


def _moved(rows: HeldRows, method: search.Method, price: float, most: int) -> State:
    """Where moves and means lead in a few steps, or until there are more than `most` clusters."""
    alone = replace(method, penalty=price, max_clusters=None, max_iter=SEARCH_STEPS, coreset_rows=0)
    start = replace(alone.init(rows), share=len(SHARES))
    for step in iterate(rows, alone, start):
        if len(step.state.centers) > most:
            break
    return step.state


def dry_run(
    data: Any,
    run: AnyPlace,
    method: batch.Method | search.Method,
    *,
    seed: int | None,
    sample_weight: Any = None,
    center_names: Names | None = None,
    resume: bool = False,
    force: bool = False,
    scale: Float64Array | str | None = None,
    **where: Any,
) -> Estimate:
    """What `run.fit` would work on with these arguments; it takes them all, and refuses what that refuses.

    It reads metadata and at most `SAMPLE_BLOCKS` blocks of the first shard, on one thread of one worker;
    where it may choose the threads, and each pass would read, it also tries how well these read side by side.
    """
    store = RunStore.at(run, where.get("storage_options"))
    store.check_target("run", [data, sample_weight], force=True)
    if not (is_stored(data) and is_stored(sample_weight)):
        raise InputError("a dry run reads stored rows, not what Dask has yet to compute: write them to a Zarr store")
    layout, executor = lay_out(data, sample_weight, features=method.features, **where)
    check_centers(center_names, layout.column_names, layout.prepare.columns)
    seed = runs.seed_for(store, seed, resume)
    method = method.seeded(seed)
    if resume:
        asked = description.asked(method, seed, layout, scaled=scale is not None, weighted=sample_weight is not None)
        runs.check_resumable(store, asked)
    target = _target(store, resume=resume, force=force)
    job = Sampling(method, sample_rows(layout), scale)
    sample = executor.run([job], layout, "estimate")[0]
    found = estimated(layout, sample, method, store.shown, target)
    free = isinstance(executor, Threads) and where.get("threads") is None
    why = why_processes(layout) if free else None
    if why is None:
        return found
    way = f"pass a client of processes, as Client(n_workers={layout.resources.threads}, threads_per_worker=1)"
    return replace(found, advice=(*found.advice, f"{why}: {way}"))


def sample_rows(layout: Layout) -> int:
    """Rows of the first shard that are read: whole blocks, that a thread may hold."""
    height = layout.plan.block_rows
    blocks = min(SAMPLE_BLOCKS, layout.plan.shard_blocks, layout.sampled_blocks)
    return min(blocks * height, layout.plan.n_rows)


def estimated(
    layout: Layout, sample: Sample, method: batch.Method | search.Method, run: str, target: Target
) -> Estimate:
    """The estimate that follows from a layout and a sample."""
    plan, resources, storage = layout.plan, layout.resources, Storage.of(layout.rows)
    arrays = [array for array in (layout.rows, layout.weights) if array is not None]
    sizes = [stored_bytes(array) for array in arrays]
    read, scanned = shard_seconds(layout, sample, storage)
    turns = -(-plan.n_shards // resources.threads)
    return Estimate(
        run=run,
        target=target,
        n_rows=plan.n_rows,
        n_columns=layout.stored_columns,
        n_features=layout.n_features,
        dtype=layout.stored_dtype.name,
        block_rows=plan.block_rows,
        n_blocks=plan.n_blocks,
        shard_rows=min(plan.shard_rows, plan.n_rows),
        n_shards=plan.n_shards,
        threads=resources.threads,
        stored_bytes=None if None in sizes else sum(filter(None, sizes)),
        decoded_bytes=sum(map(decoded_bytes, arrays)),
        resident=layout.resident,
        worker_memory=resources.worker_memory,
        thread_memory=resources.thread_memory,
        thread_bytes=held_rows(layout) * layout.row_bytes + layout.block_bytes,
        sample_rows=sample.n_rows,
        sample_clusters=sample.n_clusters,
        load_seconds=turns * read if layout.resident else 0.0,
        pass_seconds=turns * (scanned if layout.resident else read + scanned),
        basis=(
            f"one pass at {counted(sample.n_clusters, 'cluster')}, {sample.clusters_are}; the first "
            f"{counted(sample.n_rows, 'row')} were read, then scanned, on one thread, and the time scaled by rows to a "
            f"shard, then by {counted(plan.n_shards, 'shard')} / {counted(resources.threads, 'thread')}, rounded up"
        ),
        advice=advice(layout, storage, sample, method),
    )


def shard_seconds(layout: Layout, sample: Sample, storage: Storage | None) -> tuple[float, float]:
    """Seconds that reading and scanning a shard take a thread; a chunk is decoded whole, however little is wanted."""
    plan, chunk_rows = layout.plan, 1 if storage is None else storage.chunk_rows
    decoded = min(-(-sample.n_rows // chunk_rows) * chunk_rows, plan.n_rows)
    read = sample.read_seconds * decoded_rows(plan, chunk_rows) / plan.n_shards / decoded
    return read, sample.scan_seconds * min(plan.shard_rows, plan.n_rows) / sample.n_rows


def held_rows(layout: Layout) -> int:
    """Rows that a thread holds: its shards where rows are kept, else a piece and the one that is read ahead."""
    plan = layout.plan
    turns = -(-plan.n_shards // layout.resources.threads)
    return min(plan.n_rows, turns * plan.shard_rows if layout.resident else 2 * read_rows(layout.rows))


def advice(
    layout: Layout, storage: Storage | None, sample: Sample, method: batch.Method | search.Method
) -> tuple[str, ...]:
    """What about the input makes a fit slower or less safe than it could be."""
    found = [] if storage is None else [*_on_chunks(layout, storage), *_on_codecs(layout, storage, sample)]
    most = method.max_clusters
    if isinstance(method, batch.Method) and most is not None and sample.n_clusters > most:
        found.append(
            f"the first {counted(sample.n_rows, 'row')} alone open {counted(sample.n_clusters, 'cluster')}, more than "
            f"max_clusters={most:,}: raise the penalty, or max_clusters"
        )
    return tuple(found)


def _on_chunks(layout: Layout, storage: Storage) -> list[str]:
    plan, d, height, width = layout.plan, layout.stored_columns, storage.chunk_rows, storage.chunk_columns
    shard_rows = min(plan.shard_rows, plan.n_rows)
    good = min(plan.shard_rows, power_of_two(GOOD_CHUNK // layout.row_bytes))
    size, count = height * width * layout.stored_dtype.itemsize, -(-shard_rows // height) * -(-d // width)
    decodes = decoded_rows(plan, height) / plan.n_rows
    when = "while rows are loaded" if layout.resident else "in each pass"
    found = []
    if size < SMALL_CHUNK and count > FEW_CHUNKS:
        found.append(
            f"chunks of {format_bytes(size)} are small: {counted(count, 'read')} a shard; "
            f"rechunk to {counted(good, 'row')}, {format_bytes(good * layout.row_bytes)}"
        )
    if width < d:
        found.append(
            f"chunks hold {width:,} of {counted(d, 'column')}: each row is read from {-(-d // width):,} chunks; "
            "rechunk to all columns"
        )
    if decodes > MOST_DECODES:
        found.append(
            f"chunks of {counted(height, 'row')} reach into several shards of {shard_rows:,}: each is decoded "
            f"{decodes:.1f} times {when}; chunks of {counted(good, 'row')}, or of another power of two up to "
            f"{plan.shard_rows:,}, are decoded once"
        )
    if plan.n_shards < layout.resources.threads and height > plan.block_rows:
        found.append(
            f"chunks of {counted(height, 'row')} make {counted(plan.n_shards, 'shard')} for "
            f"{counted(layout.resources.threads, 'thread')}: "
            "smaller chunks let all of them work"
        )
    return found


def _on_codecs(layout: Layout, storage: Storage, sample: Sample) -> list[str]:
    found = []
    if not storage.checksummed:
        found.append(
            "no codec has a checksum: a flipped bit is read as another number; "
            "store with crc32c, or zstd with checksum=True"
        )
    if storage.compressors and not layout.resident and sample.read_seconds > sample.scan_seconds:
        needed = format_bytes(int(decoded_bytes(layout.rows) / RESIDENT_SHARE))
        found.append(
            f"{', '.join(storage.compressors)} is decoded anew in each pass, on the threads that scan, and reading "
            f"takes {sample.read_seconds / sample.scan_seconds:.1f} times as long as scanning: "
            f"give {needed} of memory in all, which keeps the rows, or more threads, or store with a lighter codec"
        )
    return found


def _target(store: RunStore, *, resume: bool, force: bool) -> Target:
    if force:
        return "removed" if store.removable() else "new"
    if store.kind() is None or (store.idle() and not (resume and store.begun())):
        return "new"
    return "resumed" if resume else "refused"
