"""DP-means clustering, from Zarr stores to Zarr stores, on threads and on Dask clusters.

Names are imported as they are first asked for: all modules together take seconds, in which the
command line could not yet be stopped.
"""

from typing import TYPE_CHECKING

from dask_dpmeans.lazy import lazy_names

if TYPE_CHECKING:
    from dask_dpmeans.api.anndata import fit_anndata
    from dask_dpmeans.api.cost import Estimate
    from dask_dpmeans.api.fitting import dry_run, fit
    from dask_dpmeans.api.loading import load
    from dask_dpmeans.api.prediction import predict
    from dask_dpmeans.errors import (
        CorruptStoreError,
        InputError,
        NoWorkersError,
        TooManyClustersError,
    )
    from dask_dpmeans.estimators.dpmeans import DPMeans
    from dask_dpmeans.estimators.gibbs import GibbsMixture
    from dask_dpmeans.estimators.graph_cut import GraphCutDPMeans
    from dask_dpmeans.estimators.hdp import HDPMeans
    from dask_dpmeans.estimators.kernel import KernelDPMeans
    from dask_dpmeans.estimators.linkage import LinkageDPMeans
    from dask_dpmeans.estimators.spectral import SpectralDPMeans
    from dask_dpmeans.estimators.streaming import OnlineDPMeans, SplitMergeDPMeans
    from dask_dpmeans.selection import metrics, penalty
    from dask_dpmeans.selection.bounds import lower_bound
else:
    __getattr__ = lazy_names(
        __name__,
        {
            ".api.anndata": "fit_anndata",
            ".api.cost": "Estimate",
            ".api.fitting": "dry_run fit",
            ".api.loading": "load",
            ".api.prediction": "predict",
            ".errors": "CorruptStoreError InputError NoWorkersError TooManyClustersError",
            ".estimators.dpmeans": "DPMeans",
            ".estimators.gibbs": "GibbsMixture",
            ".estimators.graph_cut": "GraphCutDPMeans",
            ".estimators.hdp": "HDPMeans",
            ".estimators.kernel": "KernelDPMeans",
            ".estimators.linkage": "LinkageDPMeans",
            ".estimators.spectral": "SpectralDPMeans",
            ".estimators.streaming": "OnlineDPMeans SplitMergeDPMeans",
            ".selection": "metrics penalty",
            ".selection.bounds": "lower_bound",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "CorruptStoreError",
    "DPMeans",
    "Estimate",
    "GibbsMixture",
    "GraphCutDPMeans",
    "HDPMeans",
    "InputError",
    "KernelDPMeans",
    "LinkageDPMeans",
    "NoWorkersError",
    "OnlineDPMeans",
    "SpectralDPMeans",
    "SplitMergeDPMeans",
    "TooManyClustersError",
    "dry_run",
    "fit",
    "fit_anndata",
    "load",
    "lower_bound",
    "metrics",
    "penalty",
    "predict",
]


def __dir__() -> list[str]:
    """List the exported names beside those that are loaded."""
    return sorted({*globals(), *__all__})
