"""Specifications of methods: one `MethodSpec` beside each estimator that runs from store to store.

`dask_dpmeans.registry` lists their modules, and says how to add a method.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any

from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.divergence_map import restored_encoding
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import BoolArray, Features, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.membership import SoftPredictions
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.price import price_of
from dask_dpmeans.methods.dpmeans.batch import lighter
from dask_dpmeans.methods.dpmeans.dry_run import ClusterSample
from dask_dpmeans.methods.dpmeans.mixture import mixture_of
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

CLUSTERS = (ArraySpec("cluster_weights", ("cluster",)), ArraySpec("cluster_inertias", ("cluster",)))
"""Arrays of the result of every method."""
STABILITY = ArraySpec("cluster_stability", ("cluster",))
"""Array of the result of a fit whose penalty was chosen."""
OUTLIERS = ArraySpec("outliers", ("outlier_figure",))
"""Array of the result of a fit with outliers: their price and their weight."""
CENTERS = (*CLUSTERS, ArraySpec("cluster_centers", ("cluster", "feature")))
"""Arrays of the result of a method whose clusters have centers."""


@dataclass(frozen=True)
class ArrayParameter:
    """A parameter of an estimator that a run keeps as one of its arrays."""

    name: str
    """Name of the array."""


def centers_of(result: "Result") -> tuple[Float64Array, Divergence]:
    """Return the centers, (k, d), of a run as kernels see them, and the divergence."""
    encoding = restored_encoding(result)
    if encoding is not None:
        return result.arrays["cluster_averages"], EncodedDivergence(encoding)
    divergence = metric_of(result.manifest.parameters.get("metric", "euclidean"))
    if divergence.encoded:
        return result.arrays["cluster_averages"], divergence
    return result.arrays["cluster_centers"], divergence


def nearest_centers(result: "Result") -> Kernel:
    """Return the kernel that labels rows by the nearest center of a run of DP-means."""
    centers, divergence = centers_of(result)
    most, light = outliers_of(result)
    found = Centers(centers, divergence.general, most)
    return Predictions(found, next_price(result), light, divergence)


def soft_nearest_centers(result: "Result", top: int) -> SoftPredictions:
    """Return the kernel that also returns the `top` most probable clusters of each row."""
    arrays = result.arrays
    centers, divergence = centers_of(result)
    inertia = fsum(arrays["cluster_inertias"])
    most, light = outliers_of(result)
    mixture = mixture_of(centers, arrays["cluster_weights"], inertia, divergence, most=most)
    kept = min(top, mixture.n_clusters)
    return SoftPredictions(mixture, next_price(result), kept, light, divergence)


def outliers_of(result: "Result") -> tuple[float, BoolArray | None]:
    """Return the cost above which a row is an outlier, and which clusters are light, (k,)."""
    arrays, least = result.arrays, result.manifest.parameters.get("min_cluster_weight", 0.0)
    most = float(arrays["outliers"][0]) if "outliers" in arrays else math.inf
    return most, lighter(arrays["cluster_weights"], least)


def next_price(result: "Result") -> float:
    """Return the price of one more cluster beside the clusters of a run."""
    parameters = result.manifest.parameters
    price = price_of(parameters["penalty"], parameters.get("discount", 0.0))
    return price.threshold(len(result.arrays["cluster_weights"]))


def no_features(result: "Result") -> None:
    """Return None: the run learned no features."""


def own_parameters(model: Any, algorithm: Any) -> Mapping[str, Any]:
    """Return the parameters of an estimator, whatever its algorithm is."""
    own: Mapping[str, Any] = model.get_params(deep=False)
    return own


def data_as_given(data: Any) -> Any:
    """Return the data of a job."""
    return data


@dataclass(frozen=True)
class MethodSpec:
    """A method: its estimator, its arrays, and how its runs predict."""

    estimator: type[Any]
    """The scikit-learn estimator.  `load` makes one with the parameters that the run keeps."""
    predictor: "Callable[[Result], Kernel]"
    """The kernel of a map that labels new rows with the clusters of a run; `InputError` if that
    cannot be."""
    learned_features: "Callable[[Result], Features | None]" = no_features
    """Features that a run learned from its rows; None if it learned none."""
    arrays: tuple[ArraySpec, ...] = CENTERS
    """Arrays that `Algorithm.result`, and features that were learned, add to a run.  Other arrays
    are not read, and a store that holds others is not removed."""
    parameters: Callable[[Any, Any], Mapping[str, Any]] = own_parameters
    """The parameters of an estimator that a run keeps, given it and its algorithm.  Values are what
    JSON holds, or an `ArrayParameter`."""
    read: Callable[[Any], Any] = data_as_given
    """Turns the data of a job into what `dask_dpmeans.sources.as_source` takes."""
    sparse: bool = False
    """Whether the rows are CSR rows of a graph."""
    cluster_sample: Callable[[Any], ClusterSample] | None = None
    """Returns, for an estimator, how `dask_dpmeans.dry_run` clusters the first rows; None if a dry
    run cannot tell the cost of a fit."""
    takes_groups: bool = False
    """Whether rows come from several data sets, with `groups`."""
    has_bound: bool = False
    """Whether lower bounds of the objective are known, for `lower_bound`."""
    soft_predictor: "Callable[[Result, int], SoftPredictions] | None" = None
    """The kernel that also returns that many clusters with their probabilities, and margins; None
    if no mixture is known."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Arguments of `fit` that the method cannot use, with the reason."""

    def check_arguments(self, given: Mapping[str, Any]) -> None:
        """Refuse arguments of a job that the method cannot use.

        Raises
        ------
        InputError
            Groups for a method of one data set, or one of `refuses`.
        """
        name = self.estimator.__name__
        if given.get("groups") is not None and not self.takes_groups:
            raise InputError(f"groups number the data sets of HDPMeans, {name} has no use for them")
        refused = [each for each in self.refuses if given.get(each) is not None]
        if refused:
            raise InputError(
                f"{' and '.join(refused)} cannot be used on {self.refuses[refused[0]]}"
            )
