"""Steps of a fit, without Dask and Zarr: blocks, the merge tree, sweeps, the loop, its history."""
