"""
A store larger than memory
==========================

Cluster a store that is larger than the memory of the workers.

Two worker processes of 1 GB each read 2.56 GB of rows again in each pass. They read one shard
ahead. Smaller stores, which fit in memory, are read once: ``python examples/out_of_core.py --rows
1000000``.
"""

import os
import tempfile
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import click
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic

CENTERS, COLUMNS = 50, 32


class Peak:
    """The most memory that each of some processes was seen to have, while inside."""

    def __init__(self, processes: list[int]) -> None:
        self.most = dict.fromkeys(processes, 0)
        self._over = Event()
        self._watch = Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Peak":
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for process in self.most:
                seen = psutil.Process(process).memory_info().rss
                self.most[process] = max(self.most[process], seen)


def clustered(data: Path, run: Path, workers: int, memory: str) -> tuple[DPMeans, dict[int, int]]:
    """The clusters of a store, and the most memory of each worker, in bytes."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        Peak(list(client.run(os.getpid).values())) as peak,
    ):
        found = fit(data, run, DPMeans(penalty=COLUMNS * 8.0, random_state=0), client=client)
    return found, peak.most


@click.command()
@click.option("--rows", default=20_000_000, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--memory", default="1GB", show_default=True, help="Of each worker.")
def main(rows: int, workers: int, memory: str) -> None:
    """Write a store, cluster it on workers of little memory, and print what that took."""
    with tempfile.TemporaryDirectory() as folder:
        started = perf_counter()
        write_synthetic(
            Synthetic("blobs", rows, COLUMNS, CENTERS, seed=0), Path(folder, "data.zarr")
        )
        size = rows * COLUMNS * np.dtype(np.float32).itemsize
        click.echo(
            f"{rows:,} rows of {COLUMNS} columns, {size / 1e9:.2f} GB, written in {perf_counter() - started:.0f} s"
        )
        started = perf_counter()
        found, most = clustered(
            Path(folder, "data.zarr", "rows"), Path(folder, "run.zarr"), workers, memory
        )
        click.echo(
            f"{found.n_clusters_} clusters in {found.n_passes_:.1f} passes and {perf_counter() - started:.0f} s; "
            f"workers of {memory} had {', '.join(f'{each / 1e9:.2f} GB' for each in most.values())} at most"
        )


if __name__ == "__main__":
    main()
