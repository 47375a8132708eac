"""Every method, once: nothing else in the package asks an estimator or a run for its type.

To add a method, write its algorithm (`dask_dpmeans.engine.loop.Algorithm`), its estimator with a
`SPEC` beside it (`dask_dpmeans.estimators.spec.MethodSpec`) and its command, and add one line to
`METHODS`.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dask_dpmeans.errors import CorruptStoreError, InputError

if TYPE_CHECKING:
    from dask_dpmeans.estimators.spec import MethodSpec
    from dask_dpmeans.methods.dpmeans.dry_run import ClusterSample
    from dask_dpmeans.storage.manifest import Manifest


@dataclass(frozen=True)
class Entry:
    """Where a method is found; its modules are imported when they are first needed."""

    module: str
    """The module of the estimator and of its `SPEC`."""
    command: str | None = None
    """The command that fits it, if there is one: `{command}_command` of `commands`."""
    summary: str = ""
    """Its line in the list of all commands."""
    commands: str = "dask_dpmeans.cli.fitting"
    """The module of the command."""

    @property
    def spec(self) -> "MethodSpec":
        """The specification of the method."""
        spec: MethodSpec = import_module(self.module).SPEC
        return spec


METHODS = {
    "DPMeans": Entry(
        "dask_dpmeans.estimators.dpmeans", "fit", "Cluster rows, by the price of a cluster."
    ),
    "HDPMeans": Entry(
        "dask_dpmeans.estimators.hdp", "hdp", "Cluster several data sets that share clusters."
    ),
    "KernelDPMeans": Entry(
        "dask_dpmeans.estimators.kernel",
        "kernel",
        "Cluster rows in the space of a kernel function.",
    ),
    "SpectralDPMeans": Entry(
        "dask_dpmeans.estimators.spectral",
        "spectral",
        "Cluster rows by eigenvectors of their affinity.",
    ),
    "GraphCutDPMeans": Entry(
        "dask_dpmeans.estimators.graph_cut", "graph", "Cluster the nodes of a graph by a cut."
    ),
    "LinkageDPMeans": Entry(
        "dask_dpmeans.estimators.linkage", "shapes", "Cluster rows into clusters of any shape."
    ),
    "GibbsMixture": Entry("dask_dpmeans.estimators.gibbs"),
}
"""By the class name of the estimator, which runs keep."""


def spec_of(model: Any) -> "MethodSpec":
    """Return the spec of an estimator.

    Raises
    ------
    InputError
        The class is not in `METHODS`.
    """
    name = type(model).__name__
    if isinstance(model, type) and model.__name__ in METHODS:
        raise InputError(
            f"method must be an estimator, got the class {model.__name__}: give {model.__name__}()"
        )
    if name not in METHODS:
        raise InputError(
            f"method must be an estimator with a run store ({', '.join(METHODS)}), got {model!r}"
        )
    return METHODS[name].spec


def sample_clusters_of(model: object) -> "ClusterSample | None":
    """Return how a dry run clusters the first rows; None if it cannot tell the cost of a fit."""
    entry = METHODS.get(type(model).__name__)
    if entry is None or entry.spec.cluster_sample is None:
        return None
    return entry.spec.cluster_sample(model)


def has_bound(model: object) -> bool:
    """Return whether lower bounds of the objective of an estimator are known."""
    entry = METHODS.get(type(model).__name__)
    return entry is not None and entry.spec.has_bound


def spec_of_run(manifest: "Manifest", path: str) -> "MethodSpec":
    """Return the spec of the estimator that the run at a path was made by.

    Raises
    ------
    CorruptStoreError
        The run names none of `METHODS`.
    """
    name = manifest.estimator.name
    if name not in METHODS:
        raise CorruptStoreError(f"{path} is a run of {name!r}, which this version does not know")
    return METHODS[name].spec
