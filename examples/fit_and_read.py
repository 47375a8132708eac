"""
From a Zarr store to a Zarr store
=================================

Write rows of three blobs to a Zarr store, cluster them, and read the result with xarray. The
penalty is a price: a cluster stays if it saves more than 5,000 of squared error.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

from dask_dpmeans import DPMeans, fit

try:
    import xarray
except ModuleNotFoundError as error:
    raise SystemExit('this example needs xarray: pip install "dask-dpmeans[examples]"') from error


def figure(path: Path, rows: np.ndarray[Any, Any], run: xarray.Dataset) -> None:
    """Draw every tenth row in the color of its cluster, and the centers."""
    from matplotlib.figure import Figure  # noqa: PLC0415  only the figure needs matplotlib

    page = Figure(figsize=(5, 4), layout="constrained")
    axes = page.subplots()
    axes.scatter(*rows[::10].T, s=4, c=run.labels[::10], cmap="viridis")
    axes.plot(
        *run.cluster_centers.values.T, "P", color="white", markeredgecolor="black", markersize=10
    )
    axes.set(xlabel="first column", ylabel="second column", aspect="equal")
    page.savefig(path, dpi=110)


@click.command()
@click.option(
    "--figure", "path", type=click.Path(path_type=Path), help="Draw into this file, .png or .pdf."
)
def main(path: Path | None) -> None:
    """Fit three blobs from a store to a store, and open the run with xarray."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=10_000)
    rows = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[truth] + rng.standard_normal(
        (10_000, 2)
    )
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder, "rows.zarr"), Path(folder, "run.zarr")
        array = zarr.create_array(data, shape=rows.shape, chunks=(2_500, 2), dtype=np.float32)
        array[:] = rows
        model = fit(data, run, DPMeans(penalty=5000.0, search=True, random_state=0))
        print(f"clusters: {model.n_clusters_}, steps: {model.n_iter_}, J: {model.objective_:.2f}")
        opened = xarray.open_zarr(run)
        print(opened)
        if path is not None:
            figure(path, rows, opened)


if __name__ == "__main__":
    main()
