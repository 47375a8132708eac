"""
Stop a job on a cluster and go on
=================================

Submit a job to a Dask cluster, stop it after two steps, and resume it.

``python examples/submit_to_cluster.py --scheduler tcp://10.0.0.5:8786 --folder /shared/folder``
works on a cluster that is already there. All of its workers must reach the folder. Without a
scheduler the example starts two worker processes on this machine.

The job stops after its second step, and a second job goes on from there. The result has the same
bytes as a fit that was not stopped.
"""

import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
import numpy as np
from dask.distributed import Client, LocalCluster

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic


class Stopped(Exception):  # noqa: N818  no error
    """What stops the first job."""


def cluster_of(scheduler: str | None) -> AbstractContextManager[Any]:
    """A cluster: the address of one that is there, or one of this machine."""
    return (
        Client(scheduler)
        if scheduler
        else LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    )


def told(number: int, record: Any, n_rows: int) -> None:
    """Say what a step came to."""
    click.echo(f"  step {number}: {record.n_clusters} clusters, J {record.objective:,.1f}")


def told_and_stopped(number: int, record: Any, n_rows: int) -> None:
    """The same, and end after the second step."""
    told(number, record, n_rows)
    if number == 2:
        raise Stopped


@click.command()
@click.option("--scheduler", help="Address of a scheduler.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data and runs go.")
@click.option("--rows", default=1_000_000, show_default=True)
def main(scheduler: str | None, folder: Path | None, rows: int) -> None:
    """Fit, stop, go on, and compare with a fit that was not stopped."""
    with (
        tempfile.TemporaryDirectory() as own,
        cluster_of(scheduler) as cluster,
        Client(cluster) as client,
    ):
        place = folder or Path(own)
        write_synthetic(Synthetic("blobs", rows, 8, 20, seed=0), place / "data.zarr")
        data, run, other = place / "data.zarr" / "rows", place / "run.zarr", place / "other.zarr"
        model = DPMeans(penalty=40.0, tol=1e-3, random_state=0)
        click.echo("a job that is stopped:")
        try:
            fit(data, run, model, client=client, on_step=told_and_stopped)
        except Stopped:
            click.echo("another that goes on:")
        resumed = fit(data, run, model, client=client, on_step=told, resume=True)
        whole = fit(data, other, model, client=client)
        same = np.array_equal(resumed.cluster_centers_, whole.cluster_centers_)
        same = same and np.array_equal(np.asarray(resumed.labels_), np.asarray(whole.labels_))
        click.echo(
            f"{resumed.n_clusters_} clusters; the same bytes as a fit that was not stopped: {same}"
        )


if __name__ == "__main__":
    main()
