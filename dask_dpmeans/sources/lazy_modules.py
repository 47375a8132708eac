"""Modules that are imported when they are first used: NumPy rows in this process need none of them.

A value can be of a class only if its module is loaded, so the functions here load none.
"""

import sys
from typing import TYPE_CHECKING, Any

from dask_dpmeans.lazy import LazyModule

if TYPE_CHECKING:
    import dask.array as da
    import distributed
    import google_crc32c as crc32c
    import pyarrow
    import zarr.abc.store
    from dask.delayed import Delayed
    from numcodecs import blosc, zstd
    from pyarrow import compute, parquet
    from pyarrow import csv as arrow_csv
    from scipy import io as scipy_io
    from typing_extensions import TypeIs

    from dask_dpmeans.sources import cluster
    from dask_dpmeans.sources.executors import dask_tasks
    from dask_dpmeans.sources.formats import cube_chunks
    from dask_dpmeans.sources.safety import bounded_codecs, checked_store
    from dask_dpmeans.storage import arrays

    dask: Any
else:
    dask = LazyModule("dask")
    da = LazyModule("dask.array")
    distributed = LazyModule("distributed")
    zarr = LazyModule("zarr")
    blosc = LazyModule("numcodecs.blosc")
    zstd = LazyModule("numcodecs.zstd")
    crc32c = LazyModule("google_crc32c")
    pyarrow = LazyModule("pyarrow")
    compute = LazyModule("pyarrow.compute")
    parquet = LazyModule("pyarrow.parquet")
    arrow_csv = LazyModule("pyarrow.csv")
    scipy_io = LazyModule("scipy.io")
    cluster = LazyModule("dask_dpmeans.sources.cluster")
    dask_tasks = LazyModule("dask_dpmeans.sources.executors.dask_tasks")
    cube_chunks = LazyModule("dask_dpmeans.sources.formats.cube_chunks")
    bounded_codecs = LazyModule("dask_dpmeans.sources.safety.bounded_codecs")
    checked_store = LazyModule("dask_dpmeans.sources.safety.checked_store")
    arrays = LazyModule("dask_dpmeans.storage.arrays")


def is_dask_array(value: object) -> "TypeIs[da.Array]":
    """Return whether a value is an array, (...), of Dask."""
    return _is_instance(value, "dask.array", "Array")


def is_delayed(value: object) -> "TypeIs[Delayed]":
    """Return whether a value is a delayed object of Dask."""
    return _is_instance(value, "dask.delayed", "Delayed")


def is_future(value: object) -> "TypeIs[distributed.Future[Any]]":
    """Return whether a value is a future of a Dask cluster."""
    return _is_instance(value, "distributed", "Future")


def is_zarr_array(value: object) -> "TypeIs[zarr.Array[Any]]":
    """Return whether a value is an array, (...), of Zarr."""
    return _is_instance(value, "zarr", "Array")


def is_zarr_group(value: object) -> "TypeIs[zarr.Group]":
    """Return whether a value is a group of Zarr."""
    return _is_instance(value, "zarr", "Group")


def _is_instance(value: object, module: str, name: str) -> bool:
    """Return whether a value is of a class, which may not be loaded."""
    return isinstance(value, getattr(sys.modules.get(module), name, ()))
