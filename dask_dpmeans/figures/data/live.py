"""The numbers of the page of a running fit: its steps, and the centers in a plane."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dask_dpmeans.engine.history import History
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.storage.manifest import Manifest

MOST_CENTERS = 2000
"""This many of the heaviest centers are drawn, ..."""
MOST_SPREAD = 256
"""... and this many of them give the principal directions: with 1,000 columns this takes 50 ms."""
ADDING = ("births", "splits", "openings")
REMOVING = ("deaths", "merges", "deletes", "closings")
COUNTS = ("n_clusters", *ADDING, *REMOVING, "swaps")
TINY = float(np.finfo(np.float64).tiny)


class Placed(NamedTuple):
    """The centers in a state of a fit, with their weights and clusters."""

    centers: Float64Array
    """(k, d), of clusters, or of micro-clusters if there are any."""
    weights: Float64Array
    """(k,)."""
    groups: Int64Array
    """(k,), the cluster of each center."""

    @classmethod
    def of(cls, state: Any) -> Self | None:
        """Return the centers of a state; None if its clusters have no centers."""
        searched = getattr(state, "micro", state)
        if not hasattr(searched, "centers"):
            return None
        groups = np.arange(len(searched.centers))
        if searched is not state:
            groups = state.grouping.groups
        return cls(searched.centers, searched.weights, groups)

    def heaviest(self, most: int) -> Self:
        """Return at most this many centers, the heaviest first."""
        kept = np.argsort(-self.weights, kind="stable")[:most]
        return type(self)(self.centers[kept], self.weights[kept], self.groups[kept])


class CenterMap(NamedTuple):
    """Centers in a plane."""

    coordinates: Float64Array
    """(k, 2)."""
    axes: list[str]
    """The labels of both axes."""


def center_map(placed: Placed, names: Sequence[str]) -> CenterMap:
    """Return centers in a plane.

    The axes are both columns if there are two, the column and the weight if there is one, and
    otherwise the first two principal directions of the centers, by weight.

    Parameters
    ----------
    placed : k centers, the heaviest first
    names : (d,) str, the columns of the centers
    """
    centers, d = placed.centers, placed.centers.shape[1]
    if d == 1:
        return CenterMap(np.column_stack([centers[:, 0], placed.weights]), [names[0], "weight"])
    if d == 2:
        return CenterMap(centers, list(names))
    scale = max(float(np.abs(centers).max()), TINY)  # so that no square overflows
    scaled, shares = centers / scale, placed.weights / placed.weights.sum()
    scaled -= shares @ scaled
    spread = np.sqrt(shares)[:MOST_SPREAD, np.newaxis] * scaled[:MOST_SPREAD]
    spread = np.vstack([spread, np.zeros((1, d))])  # one center has two directions as well
    _, values, directions = np.linalg.svd(spread, full_matrices=False)
    first, variances = directions[:2], values**2
    first *= np.sign(first[[0, 1], np.abs(first).argmax(axis=1)])[:, np.newaxis]
    axes = [
        f"principal direction {number}, {variance:.0%} of the variance of the centers"
        for number, variance in enumerate(variances[:2] / max(variances.sum(), TINY), 1)
    ]
    return CenterMap(scaled @ first.T * scale, axes)


def center_names(request: Manifest, d: int) -> list[str]:
    """Return the names of the d columns of the centers of a run, or their numbers."""
    used = request.input.columns or tuple(range(request.input.shape[1]))
    if request.learned_features or len(used) != d:
        return [f"feature {number}" for number in range(d)]
    if request.column_names is None:
        return [f"column {number}" for number in used]
    return list(request.column_names)


def step_columns(history: History, start: int) -> dict[str, Any]:
    """Return figures of the steps after the first `start`, by name, (steps,) each.

    `adding` and `removing` count the changes that add and remove clusters; `removing` is negative.
    """
    columns = History(history[start:]).columns()
    found: dict[str, Any] = {name: columns[name] for name in ("objective", "seconds", *COUNTS)}
    found["step"] = np.arange(start, len(history)) + 1
    found["adding"] = sum(columns[name] for name in ADDING)
    found["removing"] = -sum(columns[name] for name in REMOVING)
    return found
