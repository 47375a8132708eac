"""Where the rows are: the only importer of Dask."""

from dask.utils import parse_bytes

from dask_dpmeans.sources.cluster import connect
from dask_dpmeans.sources.inputs import as_source
from dask_dpmeans.sources.lazy import is_lazy, lazy_map, lazy_rows
from dask_dpmeans.sources.source import RowSource

__all__ = ["RowSource", "as_source", "connect", "is_lazy", "lazy_map", "lazy_rows", "parse_bytes"]
