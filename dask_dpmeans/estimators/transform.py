"""Feature maps that are fitted to all rows first: kernel approximations and eigenvectors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.divergence import Divergence

if TYPE_CHECKING:
    from dask_dpmeans.sources import RowSource

AnyValue = TypeVar("AnyValue", bound=Any)


@dataclass(frozen=True)
class MappedRows:
    """The rows as a method sees them, and what a run stores of the map."""

    source: "RowSource"
    passes: int = 0
    """Passes over the rows that fitted the map."""
    arrays: NamedArrays = field(default_factory=dict)
    """Arrays that a run stores."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Numbers that a run stores among its attributes."""
    rows: Float64Array | None = None
    """(n, r), the mapped rows, if they cannot be made of each row alone; a run stores these too."""
    divergence: Divergence | None = None
    """What mapped rows cost, if the map has learned that too."""
    flat: Callable[[Float64Array], Float64Array] | None = None
    """Map of these to rows, (n, m), whose squared distances are about the costs."""
    leading: str | None = None
    """The column, by name or number, that holds nearly all of the costs; None if none does."""

    def method(self, method: AnyValue) -> AnyValue:
        """Return a method of the mapped rows."""
        if self.divergence is None:
            return method
        changed: AnyValue = replace(method, learned=self.divergence)
        return changed

    def auto(self, auto: AnyValue) -> AnyValue:
        """Return a choice of penalties of a method of the mapped rows."""
        if self.divergence is None:
            return auto
        changed: AnyValue = replace(
            auto, method=self.method(auto.method), flat=self.flat, leading=self.leading
        )
        return changed


class FeatureMap(Protocol):
    """A map of rows to features, as a value."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that a run stores."""

    def check_weights(self, sample_weight: object) -> None:
        """Refuse weights that the map cannot use."""

    def fit(self, source: "RowSource", seed: int) -> MappedRows:
        """Fit the map to the rows, and return them mapped."""
