"""DP-means clustering, from Zarr stores to Zarr stores, on threads and on Dask clusters.

Names are imported as they are first asked for: all modules together take seconds, in which the
command line could not yet be stopped.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from dask_dpmeans.estimators.spectral import SpectralDPMeans
    from dask_dpmeans.estimators.streaming import OnlineDPMeans, SplitMergeDPMeans
    from dask_dpmeans.selection import metrics, penalty

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

HOMES = {
    "api.cost": ("Estimate",),
    "api.fitting": ("dry_run", "fit"),
    "api.loading": ("load",),
    "api.prediction": ("predict",),
    "errors": ("CorruptStoreError", "InputError", "NoWorkersError", "TooManyClustersError"),
    "estimators.dpmeans": ("DPMeans",),
    "estimators.gibbs": ("GibbsMixture",),
    "estimators.graph_cut": ("GraphCutDPMeans",),
    "estimators.hdp": ("HDPMeans",),
    "estimators.kernel": ("KernelDPMeans",),
    "estimators.spectral": ("SpectralDPMeans",),
    "estimators.streaming": ("OnlineDPMeans", "SplitMergeDPMeans"),
}
"""Exported names by module; `metrics` and `penalty` are modules of `selection`."""


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first asked for."""
    if name in ("metrics", "penalty"):
        return import_module(f"{__name__}.selection.{name}")
    for module, names in HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the exported names beside those that are loaded."""
    return sorted({*globals(), *__all__})
