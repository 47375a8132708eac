"""Outputs as Zarr groups: locations, locks, checksummed arrays, runs.

`location` names a place and `lock` keeps other jobs from it.  An `Output` (`output`) is written as a
whole; a `RunStore` (`run_store`) also has the steps of a fit (`step_log`) and a `manifest` of what
was asked.  `arrays` has the checksums, `array_spec` the names and shapes of arrays, and `anndata`
writes clusters of cells.
"""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import lazy_names

if TYPE_CHECKING:
    from dask_dpmeans.storage.location import Location, check_options
    from dask_dpmeans.storage.run_store import Result, RunStore
    from dask_dpmeans.storage.writer import Writer
else:
    __getattr__ = lazy_names(
        __name__,
        {
            ".location": "Location check_options",
            ".run_store": "Result RunStore",
            ".writer": "Writer",
        },
    )
