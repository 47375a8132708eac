"""Graph cuts of planted partitions beside Louvain, Leiden and spectral clustering, at equal penalty.

Blocks of nodes are linked inside and outside with given mean degrees.  Each method's clusters are judged by the
normalized cut and by cut + penalty * k; spectral clustering is told the number of blocks, and left out where it would
take too long.  scikit-network is no dependency: without it its two methods are left out.  With workers, ours reads the
graph from a Zarr store in processes of so much memory; the others have it in memory.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np
import zarr
from ratios import Line, judged, table
from scipy.sparse import coo_array, csr_array, csr_matrix
from sklearn.cluster import SpectralClustering
from sklearn.metrics import normalized_mutual_info_score

from dask_dpmeans import GraphCutDPMeans, fit
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.graph_cut.gains import Tally
from dask_dpmeans.sources import connect

if find_spec("sknetwork") is None:
    Leiden = Louvain = None
else:
    from sknetwork.clustering import Leiden, Louvain

OURS = "GraphCutDPMeans"
MOST_SPECTRAL = 20_000
"""Nodes up to which spectral clustering is tried."""


@dataclass(frozen=True)
class Found:
    """What a method came to."""

    seconds: float
    processor: float
    """Seconds of processor time, of this process and of workers that have ended."""
    k: int
    cut: float
    objective: float
    agreement: float
    """Normalized mutual information with the blocks."""


def planted(
    blocks: int, size: int, inside: float, outside: float, seed: int = 0
) -> tuple[csr_array, np.ndarray]:
    """A graph of blocks of nodes with mean degrees inside and outside a block, and the blocks."""
    rng, n = np.random.default_rng(seed), blocks * size
    within, across = round(n * inside / 2), round(n * outside / 2)
    first = rng.integers(0, blocks, within) * size
    inner = [first + rng.integers(0, size, within), first + rng.integers(0, size, within)]
    rows = np.concatenate([inner[0], rng.integers(0, n, across)])
    columns = np.concatenate([inner[1], rng.integers(0, n, across)])
    proper = rows != columns
    ends = rows[proper].astype(np.int32), columns[proper].astype(np.int32)
    half = csr_array(coo_array((np.ones(len(ends[0])), ends), shape=(n, n)))
    graph = csr_array(half + half.T)
    graph.data[:] = 1.0
    return graph, np.repeat(np.arange(blocks), size)


def clocks() -> np.ndarray:
    """Seconds on the clock, and of processor time of this process and of those it has ended, (2,)."""
    return np.array([perf_counter(), sum(os.times()[:4])])


def figures(graph: csr_array, labels: Any, truth: Any, penalty: float, seconds: Any) -> Found:
    """The figures of a clustering, which took `seconds`, (2,)."""
    numbers = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    k = int(numbers.max()) + 1
    totals = Tally(numbers, True).chunk(Block(0, graph, None)).whole(k)
    cut = float((1 - totals.kept / totals.masses).sum())
    return Found(*seconds, k, cut, cut + penalty * k, normalized_mutual_info_score(truth, numbers))


def in_memory(graph: csr_array, penalty: float) -> Any:
    """Our labels of a graph, on threads."""
    return GraphCutDPMeans(penalty, random_state=0).fit(graph).labels_


def on_workers(graph: csr_array, penalty: float, workers: int, memory: str) -> Any:
    """Our labels of a graph that worker processes read from a store."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "graph.zarr")
        group = zarr.create_group(
            path, attributes={"encoding-type": "csr_matrix", "shape": list(graph.shape)}
        )
        for name in ("data", "indices", "indptr"):
            group.create_array(
                name,
                data=getattr(graph, name),
                chunks=(2**20,),
                config={"write_empty_chunks": True},
            )
        with connect(None, workers, 1, memory, 60) as client:
            run = str(Path(folder, "run.zarr"))
            return np.asarray(
                fit(path, run, GraphCutDPMeans(penalty, random_state=0), client=client).labels_
            )


def methods(
    penalty: float, blocks: int, n: int, workers: int, memory: str
) -> dict[str, Callable[[csr_array], Any]]:
    """What gives labels of a graph, by name."""
    ours = partial(on_workers, workers=workers, memory=memory) if workers else in_memory
    found: dict[str, Callable[[csr_array], Any]] = {OURS: partial(ours, penalty=penalty)}
    if Louvain is not None:
        found["Louvain"] = lambda graph: Louvain(random_state=0).fit_predict(csr_matrix(graph))
        found["Leiden"] = lambda graph: Leiden(random_state=0).fit_predict(csr_matrix(graph))
    if n <= MOST_SPECTRAL:
        spectral = SpectralClustering(
            blocks, affinity="precomputed", assign_labels="cluster_qr", random_state=0
        )
        found["SpectralClustering, k given"] = spectral.fit_predict
    return found


def compared(
    blocks: int, size: int, inside: float, outside: float, penalty: float, workers: int, memory: str
) -> dict[str, Found]:
    """What each method came to, and the planted blocks."""
    graph, truth = planted(blocks, size, inside, outside)
    found = {"planted": figures(graph, truth, truth, penalty, (0.0, 0.0))}
    for name, labels_of in methods(penalty, blocks, len(truth), workers, memory).items():
        started = clocks()
        labels = labels_of(graph)
        found[name] = figures(graph, labels, truth, penalty, clocks() - started)
    return found


def lines(found: dict[str, Found]) -> list[Line]:
    """The lines of these, and whether none is lower than ours."""
    each = [
        Line(
            name,
            f"{one.seconds:.1f} s, {one.processor:.1f} s of processor time, {one.k:,} clusters, "
            f"cut {one.cut:.4f}, NMI {one.agreement:.3f}",
        )
        for name, one in found.items()
    ]
    others = {name: one.objective for name, one in found.items() if name != OURS}
    ours, rounding = found[OURS].objective, 1e-9 * found[OURS].k
    beside = [
        judged(
            f"cut + penalty k of {OURS}, and of {name}",
            ours,
            f"{ours:.4f}, {other:.4f}",
            most=other + rounding,
        )
        for name, other in others.items()
    ]
    return [*each, *beside]


@click.command()
@click.option("--blocks", default=20, show_default=True)
@click.option("--size", default=500, show_default=True, help="Nodes of a block.")
@click.option(
    "--inside", default=30.0, show_default=True, help="Mean links of a node inside its block."
)
@click.option("--outside", default=19.0, show_default=True, help="Mean links of a node to others.")
@click.option("--penalty", default=-0.6, show_default=True)
@click.option(
    "--workers",
    default=0,
    help="Processes that read the graph from a store; none for threads in memory.",
)
@click.option("--memory", default="2GB", show_default=True, help="Of each worker.")
def main(**problem: Any) -> None:
    """Print the table of one planted partition."""
    title = (
        f"{problem['blocks']:,} blocks of {problem['size']:,} nodes, penalty {problem['penalty']}"
    )
    click.echo(table(title, lines(compared(**problem))))


if __name__ == "__main__":
    main()
