"""Dry runs: the cost of a fit, from the metadata of its input and a few rows."""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal

from dask_dpmeans import sources
from dask_dpmeans.api import description
from dask_dpmeans.api.job import JobMethod
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.api.resuming import check_resumable, seed_for
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Reduction, power_of_two
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.dry_run import ClusterSample, SampleClusters
from dask_dpmeans.sources.layout import RESIDENT_SHARE
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import removable_files
from dask_dpmeans.storage.run_store import RunStore

SAMPLE_BLOCKS = 8
"""Blocks of the first shard that are read and scanned, at most."""
SCANS = 3
"""Times that these rows are scanned; the fastest counts. The first one of 200 x 2 rows took 5.3 ms, as
it loads compiled loops, and later ones 0.7."""
SMALL_CHUNK = 2**18
"""Bytes; chunks of 256 KB (d = 64, zstd) took 1.5 times as long to read as 4 MB, 64 KB 2.1."""
GOOD_CHUNK = 2**22
"""Bytes of a chunk that the advice names."""
FEW_CHUNKS = 16
"""Chunks of a shard, of which no size is too small."""
MOST_DECODES = 1.1
"""Times that a chunk is decoded, on average, before the advice names it."""

Method = batch.Method | search.Method
Target = Literal["new", "refused", "removed", "resumed"]
"""The way of a fit with the run that is there, if any."""


@dataclass(frozen=True)
class Sample:
    """The work on the first rows by one thread."""

    n_rows: int
    found: SampleClusters
    """The centers of the pass."""
    read_seconds: float
    """Seconds of reading and decoding."""
    scan_seconds: float
    """Seconds of one pass in memory."""

    @property
    def n_clusters(self) -> int:
        """Number of centers of the pass."""
        return len(self.found.centers)


@dataclass(frozen=True)
class Estimate:
    """The work of a fit, and the cost of one of its passes."""

    run: str
    target: Target
    n_rows: int
    n_columns: int
    """Columns of the input."""
    n_features: int
    """Columns that are used."""
    dtype: str
    """Type of the input."""
    block_rows: int
    n_blocks: int
    shard_rows: int
    n_shards: int
    threads: int
    """Threads of all workers."""
    stored_bytes: int | None
    """Size of rows and weights in their stores with metadata; None if a store cannot tell."""
    decoded_bytes: int
    """Size of rows and weights in memory."""
    resident: bool
    """Whether rows are read once and kept in memory; otherwise each pass reads them."""
    worker_memory: int
    """Bytes of a worker that the plan assumes."""
    thread_memory: int
    """A thread's share of these bytes."""
    thread_bytes: int
    """Bytes of rows in a thread: its shards, or two pieces; for sparse rows also a dense block."""
    sample_rows: int
    """Rows of the first shard that were read and scanned."""
    sample_clusters: int
    """Number of centers that these rows open, or that a search of some of them ends with."""
    load_seconds: float
    """Seconds of reading all rows once; 0 if each pass reads them."""
    pass_seconds: float
    """Seconds of one pass at `sample_clusters`."""
    basis: str
    """Words for the seconds, and for how they were scaled."""
    advice: tuple[str, ...]
    """Properties of the input that make a fit slower or less safe than it could be."""


def take_sample(
    layout: sources.Layout,
    method: Method,
    cluster: ClusterSample,
    n_rows: int,
    scale: Float64Array | str | None,
) -> Sample:
    """Read, cluster and scan the first rows; return the work.  The scale is (d,), "std" or None."""
    started = perf_counter()
    shard = layout.first(n_rows)
    read_seconds = perf_counter() - started
    rows = layout.in_memory(shard, scale)
    found = cluster(rows, method, layout.plan.n_rows)
    reduction: Reduction[Any] = method.reduction(found.centers)
    scans = [_fold_seconds(rows, reduction) for _ in range(SCANS)]
    return Sample(n_rows, found, read_seconds, min(scans))


def _fold_seconds(rows: InMemoryRows, reduction: Reduction[Any]) -> float:
    """Return the seconds of one pass in memory."""
    started = perf_counter()
    rows.fold(reduction)
    return perf_counter() - started


def dry_run(
    arrays: sources.InputArrays,
    run: AnyPlace,
    method: JobMethod,
    cluster: ClusterSample,
    *,
    resume: bool,
    force: bool,
    columns: sources.Columns,
    compute: sources.Compute,
) -> Estimate:
    """Return the estimate of a fit with these arguments; refuse those that `job.fit` refuses.

    It reads metadata and at most `SAMPLE_BLOCKS` blocks of the first shard, on one thread of one
    worker.  If it may choose the threads and each pass reads, it also tries parallel reading.
    """
    store = RunStore.at(run, columns.storage_options)
    store.check_target("run", [arrays.data, arrays.sample_weight], force=True)
    if not (sources.is_stored(arrays.data) and sources.is_stored(arrays.sample_weight)):
        raise InputError(
            "a dry run reads stored rows, not what Dask has yet to compute: write them to a Zarr store"
        )
    needs = sources.Requirements(method.algorithm.features, **method.accepts)
    layout, executor = sources.lay_out(arrays, columns, needs, compute, count=resume)
    sources.check_centers(method.center_names, layout.column_names, layout.prepare.columns)
    seed = seed_for(store, method.seed, resume)
    algorithm: Any = method.algorithm.seeded(seed)
    if resume:
        scaled, weighted = columns.scale is not None, arrays.sample_weight is not None
        request = description.request_of(algorithm, seed, layout, scaled=scaled, weighted=weighted)
        check_resumable(store, replace(request, estimator=method.estimator))
    target = _target(store, resume=resume, force=force)
    take = partial(take_sample, method=algorithm, cluster=cluster)
    job = partial(take, n_rows=sample_rows(layout), scale=columns.scale)
    sample = executor.run([job], layout, "estimate")[0]
    found = estimate_from(layout, sample, algorithm, store.shown, target)
    free = isinstance(executor, sources.Threads) and compute.threads is None
    why = sources.why_processes(layout) if free else None
    if why is None:
        return found
    way = f"pass a client of processes, as Client(n_workers={layout.resources.threads}, threads_per_worker=1)"
    return replace(found, advice=(*found.advice, f"{why}: {way}"))


def sample_rows(layout: sources.Layout) -> int:
    """Return how many rows of the first shard are read: complete blocks that fit a thread."""
    height = layout.plan.block_rows
    blocks = min(SAMPLE_BLOCKS, layout.plan.shard_blocks, layout.sampled_blocks)
    return min(blocks * height, layout.plan.n_rows)


def estimate_from(
    layout: sources.Layout, sample: Sample, method: Method, run: str, target: Target
) -> Estimate:
    """Return the estimate that follows from a layout and a sample."""
    plan, resources, storage = layout.plan, layout.resources, sources.Storage.of(layout.rows)
    arrays = [array for array in (layout.rows, layout.weights) if array is not None]
    sizes = [sources.stored_bytes(array) for array in arrays]
    read, scanned = shard_seconds(layout, sample, storage)
    turns = -(-plan.n_shards // resources.threads)
    load_seconds, pass_seconds = 0.0, turns * (read + scanned)
    if layout.resident:
        load_seconds, pass_seconds = turns * read, turns * scanned
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
        decoded_bytes=sum(map(sources.decoded_bytes, arrays)),
        resident=layout.resident,
        worker_memory=resources.worker_memory,
        thread_memory=resources.thread_memory,
        thread_bytes=rows_in_memory(layout) * layout.row_bytes + layout.block_bytes,
        sample_rows=sample.n_rows,
        sample_clusters=sample.n_clusters,
        load_seconds=load_seconds,
        pass_seconds=pass_seconds,
        basis=(
            f"one pass at {format_count(sample.n_clusters, 'cluster')}, {sample.found.words}; the first "
            f"{format_count(sample.n_rows, 'row')} were read, then scanned, on one thread, and the "
            f"time scaled by rows to a shard, then by {format_count(plan.n_shards, 'shard')} / "
            f"{format_count(resources.threads, 'thread')}, rounded up"
        ),
        advice=advice(layout, storage, sample, method),
    )


def shard_seconds(
    layout: sources.Layout, sample: Sample, storage: sources.Storage | None
) -> tuple[float, float]:
    """Return the seconds of a thread to read and to scan a shard; chunks are decoded as a whole."""
    plan, chunk_rows = layout.plan, 1
    if storage is not None:
        chunk_rows = storage.chunk_rows
    decoded = min(-(-sample.n_rows // chunk_rows) * chunk_rows, plan.n_rows)
    read = sample.read_seconds * sources.decoded_rows(plan, chunk_rows) / plan.n_shards / decoded
    return read, sample.scan_seconds * min(plan.shard_rows, plan.n_rows) / sample.n_rows


def rows_in_memory(layout: sources.Layout) -> int:
    """Return the rows in a thread: its shards if rows are kept, else a piece and the next one."""
    plan = layout.plan
    if not layout.resident:
        return min(plan.n_rows, 2 * sources.read_rows(layout.rows))
    return min(plan.n_rows, -(-plan.n_shards // layout.resources.threads) * plan.shard_rows)


def advice(
    layout: sources.Layout, storage: sources.Storage | None, sample: Sample, method: Method
) -> tuple[str, ...]:
    """Return advice on an input that makes a fit slower or less safe than it could be."""
    found: list[str] = []
    if storage is not None:
        found += _on_chunks(layout, storage) + _on_codecs(layout, storage, sample)
    found += _on_runs(layout)
    most = method.max_clusters
    if sample.found.fit_has_more and most is not None and sample.n_clusters > most:
        found.append(
            f"the first {format_count(sample.n_rows, 'row')} alone open "
            f"{format_count(sample.n_clusters, 'cluster')}, more than "
            f"max_clusters={most}: give a higher penalty, or a higher max_clusters"
        )
    return tuple(found)


def _on_runs(layout: sources.Layout) -> list[str]:
    """Return how a cube is read, in runs of samples that no stored chunk crosses."""
    cube = layout.rows
    if not isinstance(cube, sources.CubeRows):
        return []
    when = "loading reads" if layout.resident else "a pass reads"
    size = sources.format_bytes(cube.runs.most_samples * layout.row_bytes)
    runs = f"{format_count(len(cube.runs), 'run')} of samples, of up to {size}"
    found = f"a cube in {runs}: {when} stored chunks {layout.reads:.2f} times"
    if not cube.counted:
        found += "; the rows are all its samples here, a fit leaves out those with NaN"
    return [found]


def _on_chunks(layout: sources.Layout, storage: sources.Storage) -> list[str]:
    """Return advice about chunks that make reading slow, with the chunks that do not."""
    plan, d = layout.plan, layout.stored_columns
    height, width = storage.chunk_rows, storage.chunk_columns
    shard_rows = min(plan.shard_rows, plan.n_rows)
    good = min(plan.shard_rows, power_of_two(GOOD_CHUNK // layout.row_bytes))
    size = height * width * layout.stored_dtype.itemsize
    count = -(-shard_rows // height) * -(-d // width)
    decodes = sources.decoded_rows(plan, height) / plan.n_rows
    when = "while rows are loaded" if layout.resident else "in each pass"
    found = []
    if size < SMALL_CHUNK and count > FEW_CHUNKS:
        found.append(
            f"chunks of {sources.format_bytes(size)} are small: {format_count(count, 'read')} a shard; "
            f"rechunk to {format_count(good, 'row')}, {sources.format_bytes(good * layout.row_bytes)}"
        )
    if width < d:
        found.append(
            f"chunks hold {width:,} of {format_count(d, 'column')}: each row is read from {-(-d // width):,} chunks; "
            "rechunk to all columns"
        )
    if decodes > MOST_DECODES:
        found.append(
            f"chunks of {format_count(height, 'row')} reach into several shards of {shard_rows:,}: each is decoded "
            f"{decodes:.1f} times {when}; chunks of {format_count(good, 'row')}, or of another power of two up to "
            f"{plan.shard_rows:,}, are decoded once"
        )
    if plan.n_shards < layout.resources.threads and height > plan.block_rows:
        found.append(
            f"chunks of {format_count(height, 'row')} make {format_count(plan.n_shards, 'shard')} for "
            f"{format_count(layout.resources.threads, 'thread')}: "
            "smaller chunks let all of them work"
        )
    return found


def _on_codecs(layout: sources.Layout, storage: sources.Storage, sample: Sample) -> list[str]:
    """Return advice about checksums, and about codecs that take longer than the scan."""
    found = []
    if not storage.checksummed:
        found.append(
            "no codec has a checksum: a flipped bit is read as another number; "
            "store with crc32c, or zstd with checksum=True"
        )
    if storage.compressors and not layout.resident and sample.read_seconds > sample.scan_seconds:
        needed = sources.format_bytes(int(sources.decoded_bytes(layout.rows) / RESIDENT_SHARE))
        found.append(
            f"{', '.join(storage.compressors)} is decoded anew in each pass, on the threads that scan, and reading "
            f"takes {sample.read_seconds / sample.scan_seconds:.1f} times as long as scanning: "
            f"give {needed} of memory in all, which keeps the rows, or more threads, or store with a lighter codec"
        )
    return found


def _target(store: RunStore, *, resume: bool, force: bool) -> Target:
    """Return what a fit would do with the run: write a new one, remove it, go on, or refuse."""
    if force:
        if store.kind() is None:
            return "new"
        removable_files(store, run_array_names())
        return "removed"
    if store.kind() is None or (store.empty() and not (resume and store.begun())):
        return "new"
    if resume:
        return "resumed"
    return "refused"
