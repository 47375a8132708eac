"""Outputs as Zarr groups: locations, locks, checksummed arrays, runs."""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import lazy_names

if TYPE_CHECKING:
    from dask_dpmeans.storage.arrays import Writer
    from dask_dpmeans.storage.location import Location
    from dask_dpmeans.storage.run_store import Result, RunStore
else:
    __getattr__ = lazy_names(
        __name__, {".arrays": "Writer", ".location": "Location", ".run_store": "Result RunStore"}
    )
