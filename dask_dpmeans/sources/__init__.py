"""Rows in memory and in stores; the only package that imports Dask.

`opening` turns an input into an array, `planning` plans the work from the metadata as a `Layout`,
`loading` cuts the rows into shards, and `inputs` (`as_source`) does all of this and the first pass.
A `RowSource` (`dataset`) runs `jobs` on shards.
`options` has the options of public functions and the values that are made of them; `executors` run
jobs on shards; `safety` holds the checks of stored bytes and of values.
"""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import lazy_names

if TYPE_CHECKING:
    from dask_dpmeans.sources.categories import CategoricalColumns, Categories, Category
    from dask_dpmeans.sources.cluster import connect
    from dask_dpmeans.sources.dataset import RowSource
    from dask_dpmeans.sources.executors.process import one_blas_thread
    from dask_dpmeans.sources.executors.threads import Threads
    from dask_dpmeans.sources.formats.cube import CubePath, CubeRows
    from dask_dpmeans.sources.formats.h5ad import open_h5ad, opened_h5ad
    from dask_dpmeans.sources.formats.lazy import (
        concatenate_tables,
        is_lazy,
        is_stored,
        known_rows,
        label_pairs,
        lazy_map,
        lazy_rows,
        opened_rows,
    )
    from dask_dpmeans.sources.formats.tables import check_available, path_of
    from dask_dpmeans.sources.frames import Frame, frame_of
    from dask_dpmeans.sources.grids import Coordinate, Dimensions, Grid, is_cube, is_latitude
    from dask_dpmeans.sources.inputs import as_source, open_source, source_of_features, with_csr
    from dask_dpmeans.sources.layout import Layout
    from dask_dpmeans.sources.missing_values import whole, with_nan
    from dask_dpmeans.sources.named_columns import (
        KeptColumns,
        feature_columns,
        kept_columns,
        named_inputs,
        named_rows,
    )
    from dask_dpmeans.sources.names import Names, check_centers, check_names, names_of, used_names
    from dask_dpmeans.sources.opening import OpenedPath, open_groups, unwrap, working_dtype
    from dask_dpmeans.sources.options import (
        Accepting,
        Columns,
        Compute,
        InputArrays,
        Opening,
        Reading,
        Requirements,
        Stored,
        Where,
        check_option_names,
    )
    from dask_dpmeans.sources.parallel_read_trial import why_processes
    from dask_dpmeans.sources.planning import lay_out
    from dask_dpmeans.sources.progress import Pass
    from dask_dpmeans.sources.refusals import refuse_lazy
    from dask_dpmeans.sources.resources import (
        format_bytes,
        own_threads,
        parse_bytes,
        scheduler_address,
    )
    from dask_dpmeans.sources.safety.value_checks import refuse_inexact
    from dask_dpmeans.sources.shards import read_rows
    from dask_dpmeans.sources.stored_chunks import (
        Storage,
        decoded_bytes,
        decoded_rows,
        stored_bytes,
    )
    from dask_dpmeans.sources.xarray_cubes import Cube, centers_array, cube_like, open_cube
else:
    # Dask and Zarr take long to load: importing an estimator loads none of them.
    __getattr__ = lazy_names(
        __name__,
        {
            ".categories": "CategoricalColumns Categories Category",
            ".cluster": "connect",
            ".xarray_cubes": "Cube centers_array cube_like open_cube",
            ".dataset": "RowSource",
            ".executors.process": "one_blas_thread",
            ".executors.threads": "Threads",
            ".formats.cube": "CubePath CubeRows",
            ".formats.h5ad": "open_h5ad opened_h5ad",
            ".formats.lazy": "concatenate_tables is_lazy is_stored known_rows label_pairs lazy_map lazy_rows "
            "opened_rows",
            ".formats.tables": "check_available path_of",
            ".frames": "Frame frame_of",
            ".grids": "Coordinate Dimensions Grid is_cube is_latitude",
            ".inputs": "as_source open_source source_of_features with_csr",
            ".layout": "Layout",
            ".missing_values": "whole with_nan",
            ".named_columns": "KeptColumns feature_columns kept_columns named_inputs named_rows",
            ".names": "Names check_centers check_names names_of used_names",
            ".opening": "OpenedPath open_groups unwrap working_dtype",
            ".options": "Accepting Columns Compute InputArrays Opening Reading Requirements Stored "
            "Where check_option_names",
            ".parallel_read_trial": "why_processes",
            ".planning": "lay_out",
            ".progress": "Pass",
            ".refusals": "refuse_lazy",
            ".resources": "format_bytes own_threads parse_bytes scheduler_address",
            ".safety.value_checks": "refuse_inexact",
            ".shards": "read_rows",
            ".stored_chunks": "Storage decoded_bytes decoded_rows stored_bytes",
        },
    )
