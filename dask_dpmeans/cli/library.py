"""Parts of the library that commands load when they work, since their help needs none of them."""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import LazyModule, lazy_names

if TYPE_CHECKING:
    import numpy

    from dask_dpmeans.api import anndata, export, fitting, loading, prediction, synthetic
    from dask_dpmeans.checks import format_count
    from dask_dpmeans.cli import tables
    from dask_dpmeans.cli.progress import Progress, progress
    from dask_dpmeans.estimators.bounded import share_above
    from dask_dpmeans.selection import bounds, commands, tree
else:
    numpy = LazyModule("numpy")
    __getattr__ = lazy_names(
        __name__,
        {
            "dask_dpmeans.api": "anndata export fitting loading prediction synthetic",
            "dask_dpmeans.checks": "format_count",
            "dask_dpmeans.cli": "tables",
            "dask_dpmeans.cli.progress": "Progress progress",
            "dask_dpmeans.estimators.bounded": "share_above",
            "dask_dpmeans.selection": "bounds commands tree",
        },
    )
