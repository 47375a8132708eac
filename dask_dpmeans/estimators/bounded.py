"""The part of estimators whose objective has a lower bound, of which `lower_bound` tells them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.kernels.block import Float64Array

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

OF_BOUND = ("lower_bound_", "gap_", "cluster_gaps_")
"""Attributes that exist once a bound is known."""


def gap_of(objective: float, bound: float) -> float:
    """Return how far an objective can be above the lowest one, over the lowest one.

    Infinite if nothing is proved.
    """
    return max(0.0, objective / bound - 1) if bound > 0 else np.inf


def share_above(gap: float) -> str:
    """Return a gap in words.

    >>> share_above(0.0081), share_above(3e-7), share_above(1.328)
    ('at most 0.81 % above the optimum', 'at most 0.0001 % above the optimum', 'at most 2.3 times the optimum')
    """
    if gap >= 1:
        return f"at most {1 + gap:.2g} times the optimum"
    return f"at most {max(1e-4, 100 * gap):.2g} % above the optimum"


class BoundedMixin:
    """Fitted attributes of a lower bound, and words for them."""

    objective_: float
    cluster_gaps_: Float64Array | None

    def _set_bound(
        self, value: float, objective: float, cluster_gaps: Sequence[float] | None
    ) -> None:
        """Set the attributes; `cluster_gaps` are the parts of the clusters, (k,), if known."""
        self.lower_bound_ = float(value)
        self.gap_ = gap_of(objective, value)
        self.cluster_gaps_ = None if cluster_gaps is None else np.array(cluster_gaps)

    def _set_fitted(self, *fitted: Any) -> None:
        super()._set_fitted(*fitted)  # type: ignore[misc]
        for name in OF_BOUND:  # of an earlier fit
            vars(self).pop(name, None)

    def _restore(self, result: "Result") -> None:
        super()._restore(result)  # type: ignore[misc]
        bound = result.store.bound()
        if bound is not None:
            self._set_bound(bound["value"], bound["objective"], bound["cluster_gaps"])

    def _describe_bound(self) -> dict[str, Any]:
        """Return the fields of a `Description` that tell of the bound; none before it is known."""
        if not hasattr(self, "gap_"):
            return {}
        bound = {"value": self.lower_bound_, "gap": self.gap_ if np.isfinite(self.gap_) else None}
        columns = {}
        if self.cluster_gaps_ is not None:
            columns["part of the gap"] = self.cluster_gaps_
        return {
            "bound": f"{share_above(self.gap_)}; no clusters cost less than {self.lower_bound_:.9g}",
            "json": {"bound": bound},
            "cluster_columns": columns,
        }
