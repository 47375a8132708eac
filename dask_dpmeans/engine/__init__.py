"""What a step is, without Dask and without Zarr: blocks and their merge tree, one sweep, one loop."""
