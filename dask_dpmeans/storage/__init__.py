"""Outputs as Zarr groups: locations, locks, checksummed arrays, runs."""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import lazy_names

if TYPE_CHECKING:
    from dask_dpmeans.storage.location import Location
    from dask_dpmeans.storage.run_store import Result, RunStore
    from dask_dpmeans.storage.writer import Writer
else:
    __getattr__ = lazy_names(
        __name__, {".location": "Location", ".run_store": "Result RunStore", ".writer": "Writer"}
    )
