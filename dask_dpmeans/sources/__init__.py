"""Where the rows are: the only importer of Dask.

Input goes through `opening` (whatever it is given as becomes an array), `layout` (how it will be cut, as its metadata
tells), `loading` (shards) and `inputs` (`as_source`: all of these, and the first pass over the rows); `flaws` says what
is wrong with values.
"""

from dask.utils import format_bytes, parse_bytes

from dask_dpmeans.sources.cluster import connect, own_threads, scheduler_address
from dask_dpmeans.sources.executors import Threads, one_blas_thread
from dask_dpmeans.sources.inputs import as_source, featured
from dask_dpmeans.sources.labels import label_pairs
from dask_dpmeans.sources.layout import RESIDENT_SHARE, Layout, lay_out
from dask_dpmeans.sources.lazy import concatenated, is_lazy, is_stored, known_rows, lazy_map, lazy_rows, opened_rows
from dask_dpmeans.sources.names import Names, check_centers, check_names, names_of
from dask_dpmeans.sources.opening import open_groups, refused_table, unwrapped, working_dtype
from dask_dpmeans.sources.options import Opening, Reading, Stored, Where, check_option_names
from dask_dpmeans.sources.parquet import path_of
from dask_dpmeans.sources.reading import why_processes
from dask_dpmeans.sources.shards import read_rows
from dask_dpmeans.sources.source import RowSource
from dask_dpmeans.sources.storage import Storage, decoded_bytes, decoded_rows, stored_bytes
from dask_dpmeans.sources.watch import Pass

__all__ = [
    "RESIDENT_SHARE",
    "Layout",
    "Names",
    "Opening",
    "Pass",
    "Reading",
    "RowSource",
    "Storage",
    "Stored",
    "Threads",
    "Where",
    "as_source",
    "check_centers",
    "check_names",
    "check_option_names",
    "concatenated",
    "connect",
    "decoded_bytes",
    "decoded_rows",
    "featured",
    "format_bytes",
    "is_lazy",
    "is_stored",
    "known_rows",
    "label_pairs",
    "lay_out",
    "lazy_map",
    "lazy_rows",
    "names_of",
    "one_blas_thread",
    "open_groups",
    "opened_rows",
    "own_threads",
    "parse_bytes",
    "path_of",
    "read_rows",
    "refused_table",
    "scheduler_address",
    "stored_bytes",
    "unwrapped",
    "why_processes",
    "working_dtype",
]
