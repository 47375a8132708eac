"""
From a Zarr store to a Zarr store
=================================

Write rows to a Zarr store, cluster them, and read the result with xarray.
"""

import tempfile
from pathlib import Path

import click
import numpy as np
import xarray
import zarr

from dask_dpmeans import DPMeans, fit


@click.command()
def main() -> None:
    """Fit three blobs from a store to a store, and open the run with xarray."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=10_000)
    rows = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[truth] + rng.standard_normal((10_000, 2))
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder, "rows.zarr"), Path(folder, "run.zarr")
        array = zarr.create_array(data, shape=rows.shape, chunks=(2_500, 2), dtype=np.float32)
        array[:] = rows
        model = fit(data, run, DPMeans(penalty=30.0))
        print(f"{model.n_clusters_} clusters after {model.n_iter_} sweeps, J = {model.objective_:.2f}")
        print(xarray.open_zarr(run))


if __name__ == "__main__":
    main()
