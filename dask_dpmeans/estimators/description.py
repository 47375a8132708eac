"""Descriptions of fits: each estimator returns a `Description` for texts and pictures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from dask_dpmeans.checks import format_count
from dask_dpmeans.kernels.block import Features, Float64Array

MOST_BARS = 10
"""Clusters with a bar, the heaviest."""
BAR = (
    '<div style="display:flex;gap:.6em;align-items:center"><span style="min-width:6em">{name}</span>'
    '<span style="background:#4390de;height:.8em;width:{width:.1f}em"></span>'
    "<span>{share:.1%}</span></div>"
)


def summary_html(model: Any) -> str:
    """Return the number of clusters, the objective and the sizes of a fitted estimator as HTML."""
    weights, words = model.cluster_weights_, model.description()
    k, shares = len(weights), weights / weights.sum()
    order = np.argsort(-weights, kind="stable")[:MOST_BARS].tolist()
    lines = [f"<strong>{escape(type(model).__name__)}: {format_count(k, 'cluster')}</strong>"]
    if hasattr(model, "objective_"):
        lines.append(f"{escape(words.objective_name)}: {model.objective_:.6g}")
    choice = getattr(model, "choice_", None)
    if choice is not None:
        lines.append(escape(choice.explain(k)))
    text = "".join(f"<p style='margin:.2em 0;max-width:60em'>{line}</p>" for line in lines)
    bars = "".join(
        BAR.format(
            name=f"cluster {each}", width=15 * shares[each] / shares.max(), share=shares[each]
        )
        for each in order
    )
    rest = ""
    if k > MOST_BARS:
        rest = f"<p>and {k - MOST_BARS:,} more, {1 - shares[order].sum():.1%} of the weight</p>"
    return f'<div style="margin-bottom:.6em">{text}{bars}{rest}</div>'


@dataclass(frozen=True)
class Description:
    """Words for the items and the objective of a method, and its additions to tables and pages."""

    row: str = "row"
    """Name of the clustered items: row of a table, or node of a graph."""
    passes_over: str = "rows"
    """Name of the items that a pass reads."""
    weight_unit: str = "row"
    """Unit of the clusters' weights, in the singular, if rows have no weights."""
    weights_count_rows: bool = True
    """Whether a cluster of weight 1 is one row alone, if rows have no weights."""
    penalty_name: str = "penalty"
    """The parameter that decides how far a cluster reaches."""
    radius: float | None = None
    """Distance beyond which a row opens a cluster, in units of the fit; None without a radius."""
    inertia_name: str = "inertia, the squared error"
    cost_name: str = "squared error"
    """What the inertia of a cluster is the sum of, for tables."""
    flat: bool = True
    """Whether costs are squared distances between points, so that maps, radii and trees make sense."""
    distance_unit: str = ""
    """Unit of the roots of costs, if these are squares though they are not `flat`."""
    radii_are_cuts: bool = False
    """Whether the inertias of clusters are parts of a cut, not squared errors."""
    objective_name: str = "objective, J"
    objective_parts: str = "inertia {inertia:.9g} + penalty x clusters"
    """Terms of the objective; `{inertia}` stands for the number."""
    bound: str = ""
    """How far the objective is above the lowest one at most, once a lower bound is known."""
    units: str = "units of the data"
    """Units of the rows as the fit sees them."""
    center_columns: str | None = None
    """Name of a column of the centers, before its number; None if it is a column of the rows."""
    metric: str = "euclidean"
    """Metric of the rows."""
    centers: Float64Array | None = None
    """(k, d), the centers of a fit, if its clusters have any."""
    inertias: Float64Array | None = None
    """(k,), squared errors of the clusters about the centers, if the fit has measured them."""
    nearest_centers: bool = False
    """Whether the label of a row is the nearest of the centers among the rows, and nothing else."""
    has_end: bool = True
    """Whether the method converges; a sampler does not."""
    learned_rows: bool = False
    """Whether the clustered rows are features that the fit has learned from all rows."""
    stored_rows: Any = None
    """(n, r), the clustered rows, if they cannot be computed from the input again."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Lines of `show` about the parameters, by name."""
    clusters: str = ""
    """The line of `show` about the number of clusters, if it is more than the number."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts that a page adds to the objective and the steps, by name."""
    json: Mapping[str, object] = field(default_factory=dict)
    """Fields that `show --json` adds, by name."""
    cluster_columns: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """(k,) columns that a page adds to the table of clusters, by name."""
    pictures: tuple[str, ...] = ()
    """Pictures that a page adds: "profile" of the centers, "sharing" of data sets, "merges" and
    positions of "micro-clusters"."""

    @property
    def squares(self) -> bool:
        """Whether costs are squares of distances, so that their roots are radii."""
        return self.flat or bool(self.distance_unit)


def description_of(model: Any) -> Description:
    """Return the description of an estimator, or the usual one of a model of another package."""
    found: Description = getattr(model, "description", Description)()
    return found


def rows_as_fitted(features: Features | None, scale: Float64Array | None) -> dict[str, Any]:
    """Return the fields `units`, `center_columns` and `learned_rows` of a fit with centers.

    Parameters
    ----------
    features : the features that the fit made of each row, if any
    scale : (d,), the divisors of the columns, if they were scaled
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


DIVERGENCES = "divergences"
"""Stands for a metric where costs are no squared distances."""


def radius_or_price(
    penalty: float, *, search: bool, metric: str = "euclidean"
) -> tuple[float | None, str]:
    """Return the radius, None of a price, and the penalty with a note on it.

    The note is ", a price", ", a radius of 2", an angle for "cosine", or kilometers for "haversine".
    With `DIVERGENCES` there is no radius.
    """
    if search:
        unit = " in square kilometers" if metric == "haversine" else ""
        return None, f"{penalty:g}, a price{unit}"
    if metric == "haversine":
        return penalty, f"{penalty:g}, a radius in kilometers"
    if metric == DIVERGENCES:
        return None, f"{penalty:g}: a row that costs more at every center opens a cluster"
    radius, note = math.sqrt(penalty), f", a radius of {penalty**0.5:g}"
    if metric != "euclidean":
        # An angle beyond 180 degrees says nothing: every row lies within.
        note = ""
        if penalty <= 4:
            note = f", an angle of {math.degrees(math.acos(1 - penalty / 2)):.4g} degrees"
    return radius, f"{penalty:g}{note}"
