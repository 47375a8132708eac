"""Descriptions of fits: each estimator returns one `Description`, which texts and pictures are made from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import Features, Float64Array


@dataclass(frozen=True)
class Description:
    """The words for what a method clusters and minimizes, and what it adds to tables and pages."""

    row: str = "row"
    """Name of the clustered items: row of a table, or node of a graph."""
    passes_over: str = "rows"
    """Name of the items that a pass reads."""
    weight_unit: str = "row"
    """Unit of the clusters' weights, in the singular, where no row has a weight of its own."""
    weights_count_rows: bool = True
    """Whether a cluster of weight 1 is one row alone, where no row has a weight of its own."""
    penalty_name: str = "penalty"
    """The parameter that decides how far a cluster reaches."""
    radius: float | None = None
    """Distance beyond which a row opens a cluster, in units of the fit; None if the penalty is no
    radius."""
    inertia_name: str = "inertia, the squared error"
    radii_are_cuts: bool = False
    """Whether the inertias of clusters are what they add to a cut, not squared errors."""
    objective_name: str = "objective, J"
    objective_parts: str = "inertia {inertia:.9g} + penalty x clusters"
    """What the objective is made of; `{inertia}` stands for the number."""
    units: str = "units of the data"
    """Units of the rows as the fit sees them."""
    center_columns: str | None = None
    """What a column of the centers is called with its number; None if it is a column of the
    rows."""
    nearest_centers: bool = False
    """Whether the label of a row is the nearest of the centers among the rows, and nothing else."""
    has_end: bool = True
    """Whether the method converges; a sampler does not."""
    learned_rows: bool = False
    """Whether the rows that were clustered are features that the fit has learned from all of
    them."""
    stored_rows: Any = None
    """(n, r), the rows that were clustered, if they cannot be made of the input again."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Lines of `show` about what the method was told, by name."""
    clusters: str = ""
    """The line of `show` about the number of clusters, if it is more than the number."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a page adds to the objective and the steps, by name."""
    json: Mapping[str, object] = field(default_factory=dict)
    """What `show --json` adds to the request of a run, by name."""
    cluster_columns: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """(k,) columns that a page adds to the table of clusters, by name."""
    pictures: tuple[str, ...] = ()
    """Pictures that a page adds: "profile" of the centers, "sharing" of data sets."""


def rows_as_fitted(features: Features | None, scale: Float64Array | None) -> dict[str, Any]:
    """Return the fields `units`, `center_columns` and `learned_rows` for the rows as a fit with
    centers sees them.

    Parameters
    ----------
    features : what the fit made of each row, if anything
    scale : (d,), what the columns were divided by, if anything
    """
    if features is not None and features.n_features is not None:
        return {
            "units": "features of the kernel",
            "center_columns": "feature",
            "learned_rows": True,
        }
    if features is not None:
        return {"units": "rows of unit length"}
    return {"units": "units of the data" if scale is None else "standard deviations"}


def radius_or_price(penalty: float, metric: str, *, search: bool) -> str:
    """Return how a penalty is read: ", a price", ", a radius of 2", or the angle of the metric
    "cosine"."""
    if search:
        return ", a price"
    if metric == "euclidean":
        return f", a radius of {penalty**0.5:g}"
    # An angle beyond 180 degrees says nothing: every row lies within.
    return f", an angle of {math.degrees(math.acos(1 - penalty / 2)):.4g} degrees" if penalty <= 4 else ""
