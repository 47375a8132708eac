"""Outputs as Zarr groups: locations, locks, checksummed arrays, runs."""
