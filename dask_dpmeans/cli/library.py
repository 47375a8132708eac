"""Parts of the library that commands load when they work, since their help needs none of them."""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import LazyModule, lazy_names

if TYPE_CHECKING:
    import numpy

    from dask_dpmeans.api import anndata, prediction
    from dask_dpmeans.api.export import export
    from dask_dpmeans.api.fitting import dry_run, fit, write_run
    from dask_dpmeans.api.loading import load, open_run, read_run, unfitted_run
    from dask_dpmeans.api.prediction import rows_at
    from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
    from dask_dpmeans.checks import format_count
    from dask_dpmeans.cli.progress import Progress, progress
    from dask_dpmeans.cli.tables import (
        describe,
        rows_seen,
        run_table,
        say_estimate,
        say_path,
        say_result,
        say_tree,
    )
    from dask_dpmeans.estimators.bounded import share_above
    from dask_dpmeans.estimators.dpmeans import DPMeans
    from dask_dpmeans.estimators.graph_cut import GraphCutDPMeans
    from dask_dpmeans.estimators.hdp import HDPMeans
    from dask_dpmeans.estimators.kernel import KernelDPMeans
    from dask_dpmeans.estimators.linkage import LinkageDPMeans
    from dask_dpmeans.estimators.spectral import SpectralDPMeans
    from dask_dpmeans.selection import commands
    from dask_dpmeans.selection.bounds import LowerBound, lower_bound
    from dask_dpmeans.selection.commands import sources
    from dask_dpmeans.selection.penalty import (
        FarthestFirst,
        PenaltyFor,
        PenaltyPath,
        farthest_first,
        penalty_for,
        penalty_path,
        read_path,
        stored_path,
    )
    from dask_dpmeans.selection.tree import cluster_tree, read_tree, write_tree
    from dask_dpmeans.sources import (
        Accepting,
        Columns,
        Compute,
        CubePath,
        InputArrays,
        OpenedPath,
        Requirements,
        Stored,
        lay_out,
        named_inputs,
        own_threads,
        parse_bytes,
        scheduler_address,
        why_processes,
    )
    from dask_dpmeans.storage.location import Location, check_options
    from dask_dpmeans.storage.output import Output
    from dask_dpmeans.storage.run_store import RunStore
else:
    numpy = LazyModule("numpy")
    __getattr__ = lazy_names(
        __name__,
        {
            "dask_dpmeans.api": "anndata prediction",
            "dask_dpmeans.api.export": "export",
            "dask_dpmeans.api.fitting": "dry_run fit write_run",
            "dask_dpmeans.api.loading": "load open_run read_run unfitted_run",
            "dask_dpmeans.api.prediction": "rows_at",
            "dask_dpmeans.api.synthetic": "Synthetic write_synthetic",
            "dask_dpmeans.checks": "format_count",
            "dask_dpmeans.cli.progress": "Progress progress",
            "dask_dpmeans.cli.tables": "describe rows_seen run_table say_estimate say_path say_result say_tree",
            "dask_dpmeans.estimators.bounded": "share_above",
            "dask_dpmeans.estimators.dpmeans": "DPMeans",
            "dask_dpmeans.estimators.graph_cut": "GraphCutDPMeans",
            "dask_dpmeans.estimators.hdp": "HDPMeans",
            "dask_dpmeans.estimators.kernel": "KernelDPMeans",
            "dask_dpmeans.estimators.linkage": "LinkageDPMeans",
            "dask_dpmeans.estimators.spectral": "SpectralDPMeans",
            "dask_dpmeans.selection": "commands",
            "dask_dpmeans.selection.bounds": "LowerBound lower_bound",
            "dask_dpmeans.selection.commands": "sources",
            "dask_dpmeans.selection.penalty": "FarthestFirst PenaltyFor PenaltyPath farthest_first penalty_for "
            "penalty_path read_path stored_path",
            "dask_dpmeans.selection.tree": "cluster_tree read_tree write_tree",
            "dask_dpmeans.sources": "Accepting Columns Compute CubePath InputArrays OpenedPath Requirements Stored "
            "lay_out named_inputs own_threads parse_bytes scheduler_address why_processes",
            "dask_dpmeans.storage.location": "Location check_options",
            "dask_dpmeans.storage.output": "Output",
            "dask_dpmeans.storage.run_store": "RunStore",
        },
    )
