"""A method of the tests' own, k-means by Lloyd's sweeps from the first k rows, in this one file.

It shows what adding a method takes: an algorithm, an estimator with its `SPEC`, a command, and a line of the registry.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import click
import numpy as np
from sklearn.base import BaseEstimator

from dask_dpmeans.cli.fitting import fit_with
from dask_dpmeans.cli.options import FIT_OPTIONS, with_options
from dask_dpmeans.engine.occ import Round
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.estimators.base import CentersMixin
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.assign import NearestLabels, Predictions
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings, clusters_of
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.run_store import Result


@dataclass(frozen=True)
class State:
    """Where Lloyd's sweeps stand."""

    step: int
    centers: Float64Array
    means: Float64Array
    weights: Float64Array
    inertias: Float64Array
    objective: float
    rows_read: int
    births: int = 0
    deaths: int = 0


@dataclass(frozen=True)
class Method:
    """k-means from the first k rows."""

    n_clusters: int
    max_iter: int = 300
    name: ClassVar[str] = "lloyd"
    state: ClassVar[type[State]] = State
    sparse: ClassVar[bool] = False
    features: ClassVar[None] = None
    draws: ClassVar[bool] = False

    def seeded(self, seed: int) -> Self:
        return self

    def init(self, source: Source) -> State:
        centers = source.fold(Gather(np.arange(self.n_clusters))).rows.astype(np.float64)
        nothing = np.zeros(len(centers))
        return State(0, centers, centers, nothing, nothing, math.inf, source.plan.n_rows)

    def step(self, source: Source, state: State) -> State:
        found = source.fold(
            Round(Openings(LinearPrice(math.inf)), Centers(state.means)), name="scan"
        ).moments
        means = np.where(found.weights[:, np.newaxis] > 0, found.means, state.means)
        read = state.rows_read + source.plan.n_rows
        return State(
            state.step + 1, state.means, means, found.weights, found.inertias, found.inertia, read
        )

    def done(self, before: State, after: State) -> bool:
        return np.array_equal(after.means, after.centers)

    def score(self, source: Source, state: State) -> float:
        return source.fold(
            Round(Openings(LinearPrice(math.inf)), Centers(state.centers)), name="check"
        ).moments.inertia

    def labels(self, source: Source, state: State) -> Kernel:
        return NearestLabels(Centers(state.centers))

    def result(
        self, source: Source, state: State
    ) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        return {**clusters_of(state), "first_rows": (np.arange(self.n_clusters), ("cluster",))}


class Lloyd(CentersMixin, BaseEstimator):
    """k-means, whose number of clusters is told."""

    def __init__(
        self, n_clusters: int = 2, *, max_iter: int = 300, random_state: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.random_state = random_state

    def method(self) -> Method:
        return Method(int(self.n_clusters), int(self.max_iter))

    def _restore(self, result: Result) -> None:
        super()._restore(result)
        self.first_rows_ = result.arrays["first_rows"]

    def description(self) -> Description:
        told = {"told": f"{self.n_clusters} clusters"}
        return replace(super().description(), settings=told, objective_parts="inertia alone")


def predictor(result: Result) -> Kernel:
    return Predictions(Centers(result.arrays["cluster_centers"]), math.inf)


FIRST_ROWS = ArraySpec("first_rows", ("cluster",), "int64", below="row")

SPEC = MethodSpec(Lloyd, predictor, arrays=(*CENTERS, FIRST_ROWS))


@click.command("lloyd")
@click.argument("data")
@click.argument("run")
@click.option("--clusters", type=int, default=2)
@with_options(*FIT_OPTIONS)
def lloyd_command(**how: Any) -> None:
    """Cluster the rows of DATA by k-means."""
    for name in ("tol", "max_clusters"):
        how.pop(name)
    fit_with(Lloyd, how)
