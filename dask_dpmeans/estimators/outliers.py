"""The part of estimators whose rows may be outliers, at a price."""

import math
from typing import Any

from dask_dpmeans.estimators.base import ClustersMixin
from dask_dpmeans.kernels.block import Float64Array


class OutliersMixin(ClustersMixin):
    """The part of estimators whose rows may be outliers, at a price."""

    cluster_weights_: Float64Array
    outlier_penalty_: float | None
    outlier_weight_: float

    def _describe_outliers(self) -> dict[str, Any]:
        """Return the fields of a `Description` that tell of outliers; none if no row can be one."""
        if getattr(self, "outlier_penalty_", None) is None:
            return {}
        weight, total = self.outlier_weight_, math.fsum(self.cluster_weights_)
        few = (
            "1 row is an outlier: it costs"
            if weight == 1
            else f"{weight:,g} rows are outliers: each costs"
        )
        share = weight / (total + weight)
        amount = f"{few} more than {self.outlier_penalty_:g} ({share:.2%} of all)"
        return {
            "facts": {"outliers": amount},
            "inertia_name": "inertia, with the price of outliers",
            "json": {"outliers": {"penalty": self.outlier_penalty_, "weight": weight}},
            "settings": {"outliers": amount},
        }

    def _set_outliers(self, penalty: float, weight: float) -> None:
        """Set the fitted attributes of outliers; the penalty is infinite if there can be none."""
        self.outlier_penalty_ = float(penalty) if math.isfinite(penalty) else None
        self.outlier_weight_ = float(weight)
