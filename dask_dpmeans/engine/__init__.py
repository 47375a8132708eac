"""Steps of a fit, without Dask and without Zarr: blocks and their merge tree, one sweep, one loop, its history."""
