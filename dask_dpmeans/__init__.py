"""DP-means clustering, from Zarr stores to Zarr stores, on threads and on Dask clusters."""

from dask_dpmeans import metrics, penalty
from dask_dpmeans.errors import CorruptStoreError, InputError, NoWorkersError, TooManyClustersError
from dask_dpmeans.estimate import Estimate
from dask_dpmeans.estimators import DPMeans, dry_run, fit, load
from dask_dpmeans.graph import GraphCutDPMeans
from dask_dpmeans.groups import HDPMeans
from dask_dpmeans.kernel import KernelDPMeans
from dask_dpmeans.run import predict
from dask_dpmeans.spectral import SpectralDPMeans
from dask_dpmeans.streaming import OnlineDPMeans, SplitMergeDPMeans

__version__ = "0.1.0"

__all__ = [
    "CorruptStoreError",
    "DPMeans",
    "Estimate",
    "GraphCutDPMeans",
    "HDPMeans",
    "InputError",
    "KernelDPMeans",
    "NoWorkersError",
    "OnlineDPMeans",
    "SpectralDPMeans",
    "SplitMergeDPMeans",
    "TooManyClustersError",
    "dry_run",
    "fit",
    "load",
    "metrics",
    "penalty",
    "predict",
]
