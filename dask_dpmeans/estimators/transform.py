"""What a method sees in place of the rows, where that has to be learned from them first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources import RowSource

Arrays = Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]
"""Values and dimension names, by name."""


@dataclass(frozen=True)
class Learned:
    """What a method sees, and what a run keeps of how that came about."""

    source: RowSource
    """The rows as the method sees them."""
    passes: int = 0
    """Over the rows, to learn it."""
    arrays: Arrays = field(default_factory=dict)
    """What a run keeps."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Numbers that a run keeps among its attributes."""
    rows: Float64Array | None = None
    """(n, r), what the method sees, where nothing makes it of each row alone; a run keeps that too."""


class Recipe(Protocol):
    """How that is learned, as a value."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What a run keeps of it among its parameters."""
        ...

    def check_weights(self, sample_weight: Any) -> None:
        """Refuse weights where they have no say."""
        ...

    def learn(self, source: RowSource, seed: int) -> Learned:
        """What the method sees of these rows."""
        ...
