"""Options that estimators do not take, for rows as they are and for numbers of clusters, and why."""

from collections.abc import Callable, Container, Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from dask_dpmeans.errors import InputTypeError

SQUARED = "it compares rows by squared distances, one after the other"
COSTS = {
    "GibbsMixture": "its components are normal distributions of complete rows",
    "GraphCutDPMeans": "it clusters the nodes of a graph by their links",
    "HDPMeans": "",
    "KernelDPMeans": "the kernel gives its distances",
    "LinkageDPMeans": "it measures links of micro-clusters along straight lines",
    "OnlineDPMeans": SQUARED,
    "SpectralDPMeans": "it clusters rows of eigenvectors by squared distances",
    "SplitMergeDPMeans": SQUARED,
}
"""Why rows cannot cost other divergences, or have missing values, by the class of the estimator."""
MEASURED = (
    "use DPMeans or HDPMeans, or bring rows to where squared distances fit: square roots of counts, "
    "and a column of zeros and ones for each category"
)
WAYS_OUT = {
    "divergence": MEASURED,
    "smoothing": MEASURED,
    "balance_columns": MEASURED,
    "missing": "fill missing values first, as impute of DPMeans(missing='observed') does",
}
"""What to do instead of an option of costs."""
ALONE = "DPMeans alone has it"
OUTLIERS = f"{ALONE}: leave out the rows to which DPMeans(outlier_share=0.02) gives the label -1"
OF_PRICES = {
    "outlier_penalty": OUTLIERS,
    "outlier_share": OUTLIERS,
    "min_cluster_weight": f"{ALONE}: set labels of clusters of small cluster_weights_ to -1",
    "discount": ALONE,
}
"""Where to find options of prices, and what to do instead."""
COUNT = "n_clusters"
"""The option for a number of clusters of estimators that take one."""
COUNTS = (COUNT, "clusters", "n_components", "k")
"""Options with which a number of clusters is often asked for."""
OF_KMEANS = (
    "n_init",
    "oversampling_factor",
    "init_max_iter",
    "algorithm",
    "copy_x",
    "n_jobs",
    "verbose",
    "batch_size",
)
"""Options of KMeans in scikit-learn and dask-ml that have no counterpart."""
BY_DENSITY = "which is one of HDBSCAN: leave it out. "
BY_RADIUS = (
    "which is one of {}: DPMeans(penalty=eps**2) takes a distance eps as a radius, "
    "and LinkageDPMeans() finds clusters of any shape without one"
)
SMALL = f"{BY_DENSITY}DPMeans(min_cluster_weight=20) gives rows of lighter clusters the label -1"
NOISE = f"{BY_DENSITY}LinkageDPMeans(noise=0.2) gives rows in sparse places the label -1"
OF_DENSITIES = {
    "min_cluster_size": SMALL,
    "min_samples": NOISE,
    "eps": BY_RADIUS.format("DBSCAN"),
    "cluster_selection_epsilon": BY_RADIUS.format("HDBSCAN"),
    "cluster_selection_method": f"{BY_DENSITY}labels_at of LinkageDPMeans gives finer or coarser clusters",
    "allow_single_cluster": f"{BY_DENSITY}One cluster is a possible answer",
}
"""What to do instead of options of HDBSCAN and DBSCAN."""
EXPLAINED = {*WAYS_OUT, *OF_PRICES, *COUNTS, *OF_KMEANS, *OF_DENSITIES}
"""Options whose absence is explained."""
COUNTED = (
    "since the penalty decides the number of clusters: penalty.penalty_for(X, 3, search=True) finds the "
    f"price of 3 clusters of DPMeans, and LinkageDPMeans({COUNT}=3) makes 3 clusters of any shape"
)
"""What to do instead of an option for a number of clusters."""

Init = TypeVar("Init", bound=Callable[..., None])


def refuse_options(estimator: str, own: Container[str], names: Iterable[str]) -> None:
    """Raise an error for options that an estimator, by the name of its class, does not have.

    `own` are the options that it has.  Names of other things, and other estimators, are left alone.

    Raises
    ------
    InputTypeError
        The first option, why the estimator does not have it, and the way out.
    """
    for name in names:
        if name in own:
            continue
        if name in WAYS_OUT and COSTS.get(estimator):
            reason = f"since {COSTS[estimator]}: {WAYS_OUT[name]}"
        elif name in OF_PRICES and estimator in COSTS:
            reason = OF_PRICES[name]
        elif name in COUNTS and COUNT not in own:
            reason = COUNTED
        elif name in OF_KMEANS:
            reason = "which is one of KMeans: leave it out"
        elif name in OF_DENSITIES:
            reason = OF_DENSITIES[name]
        else:
            continue
        raise InputTypeError(f"{estimator} has no option {name}, {reason}")


def without_row_options(init: Init) -> Init:
    """Return the `__init__` of an estimator that tells why it lacks options that users may look for."""
    own, estimator = signature(init).parameters, init.__qualname__.partition(".")[0]
    needs_penalty = "penalty" in own and own["penalty"].default is Parameter.empty

    @wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        refuse_options(estimator, own, given)
        if needs_penalty and not args and "penalty" not in given:
            raise InputTypeError(
                f"{estimator} needs a penalty, such as {estimator}(penalty=0.5): help({estimator}) "
                "tells its unit. DPMeans() and LinkageDPMeans() choose theirs from the rows"
            )
        init(self, *args, **given)

    found: Any = checked
    return found
