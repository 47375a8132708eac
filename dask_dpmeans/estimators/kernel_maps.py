"""Approximate feature maps of kernel functions, by scikit-learn.

Rows become features, whose inner products approximate the values of the kernel.
"""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from dask_dpmeans import checks, sources
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Features, Float64Array, Rows, Scratch, tiles
from dask_dpmeans.kernels.kernel_functions import SIMILARITIES, unit
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.kernel.kernel_checks import checked_kernel
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from sklearn import kernel_approximation
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    from dask_dpmeans.sources import RowSource
    from dask_dpmeans.storage import Result
else:
    # It loads the metrics of scikit-learn, and so scipy.stats.
    kernel_approximation = LazyModule("sklearn.kernel_approximation")

OVERFLOW_ADVICE = "divide the data by a constant first, or choose another kernel"
TILE_ROWS = 2**10
"""Rows that are mapped at once."""
FITTED = {
    "nystroem": {"feature_components": "components_", "feature_normalization": "normalization_"},
    "fourier": {"feature_frequencies": "random_weights_", "feature_offsets": "random_offset_"},
}
"""Fitted attributes of scikit-learn's transformers, by the names of their arrays in a run."""
FITTED_COLUMNS = {"nystroem": 1, "fourier": 0}
"""The axis of the columns in the first fitted attribute."""
FEATURE_ARRAYS = (
    ArraySpec("feature_components", ("component", "column"), np.floating),
    ArraySpec("feature_normalization", ("feature", "component"), np.floating),
    ArraySpec("feature_frequencies", ("column", "feature"), np.floating),
    ArraySpec("feature_offsets", ("feature",), np.floating),
)
"""The fitted attributes as arrays of a run."""


@dataclass(frozen=True)
class KernelFeatures:
    """A fitted transformer of scikit-learn, which kernels apply to the rows."""

    name: str
    """The approximation."""
    n_features: int
    """Number of features."""
    digest: str
    """Digest of the fitted attributes."""
    transformer: "Nystroem | RBFSampler" = field(compare=False, repr=False)
    applied: "Nystroem | RBFSampler" = field(compare=False, repr=False)
    """The transformer for rows from which `origin` is subtracted."""
    origin: Float64Array | None = field(compare=False, repr=False)
    """(d,): what is subtracted from rows, if that leaves the kernel as it is."""

    @classmethod
    def of(cls, name: str, transformer: "Nystroem | RBFSampler") -> "KernelFeatures":
        """Return the features of a fitted transformer."""
        learned = [getattr(transformer, attribute) for attribute in FITTED[name].values()]
        content = b"".join(np.ascontiguousarray(values).tobytes() for values in learned)
        digest = hashlib.sha256(content).hexdigest()
        applied, origin = transformer, None
        if _any_origin(transformer):
            applied, origin = copy.copy(transformer), transformer.components_.mean(axis=0)
            applied.components_ = transformer.components_ - origin
        return cls(name, learned[-1].shape[0], digest, transformer, applied, origin)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Align arrays from another process: unaligned ones round differently."""
        self.__dict__.update(state)
        for transformer in (self.transformer, self.applied):
            for attribute in FITTED[self.name].values():
                aligned = np.require(getattr(transformer, attribute), requirements=["A"])
                setattr(transformer, attribute, aligned)

    @property
    def arrays(self) -> NamedArrays:
        """The fitted arrays that a run stores, by name, with the names of the dimensions."""
        dimensions = {spec.name: spec.dimensions for spec in FEATURE_ARRAYS}
        return {
            name: (getattr(self.transformer, attribute), dimensions[name])
            for name, attribute in FITTED[self.name].items()
        }

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return the features of rows, (height, n_features), each row independent of the others."""
        answer = scratch.array("features", (len(rows), self.n_features), rows.dtype)
        with np.errstate(all="ignore"):
            for part, tile in tiles(rows, TILE_ROWS):
                prepared = _prepared_rows(self.transformer, tile, self.origin)
                answer[part] = self.applied.transform(prepared)[: part.stop - part.start]
        return answer

    def error_message(self, place: str) -> str:
        """Return the message about a row whose features are not finite."""
        return f"the kernel overflows at {place}: divide the data by a constant first, or choose another kernel"


def _any_origin(transformer: "Nystroem | RBFSampler") -> bool:
    """Return whether rows may be given from any origin.

    scikit-learn multiplies rows for their distances.  100,000,000 away from 0, a squared distance of
    0 comes out as 1 to 9 on average, for rows of 2 to 10 columns.
    """
    return getattr(transformer, "kernel", None) == "rbf"


def _prepared_rows(
    transformer: "Nystroem | RBFSampler", rows: Rows, origin: Float64Array | None
) -> Rows:
    """Return rows for the kernel, from `origin`: scikit-learn takes lengths < 2.2e-15 for 0."""
    if getattr(transformer, "kernel", None) == "cosine":
        return unit(rows.astype(np.float64))
    if origin is not None:
        return rows - origin
    return rows


@dataclass(frozen=True)
class Approximation:
    """The approximation of a kernel, with its parameters."""

    approximation: str
    """"nystroem" or "fourier"."""
    kernel: str = "rbf"
    gamma: float | None = None
    """None for 1 / (number of columns)."""
    degree: int = 3
    coef0: float = 1.0
    n_components: int = 100
    """Features; with "nystroem" also the rows of the sample, at most n."""

    def __post_init__(self) -> None:
        if not (isinstance(self.approximation, str) and self.approximation in FITTED):
            got = checks.describe_value(self.approximation)
            raise InputError(f"approximation must be 'nystroem', 'fourier' or None, got {got}")
        names = {"fourier": ("rbf",)}.get(self.approximation, tuple(SIMILARITIES))
        if not (isinstance(self.kernel, str) and self.kernel in names):
            listed, got = ", ".join(map(repr, names)), checks.describe_value(self.kernel)
            wanted = f"approximation={self.approximation!r} takes the kernel {listed}"
            raise InputError(f"{wanted}, got {got}")
        settings = checked_kernel(self.kernel, names, self.gamma, self.degree, self.coef0)
        settings["n_components"] = checks.integer("n_components", self.n_components)
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON holds them."""
        return asdict(self)

    def check_weights(self, sample_weight: object) -> None:
        """Accept any weights: they go to the method."""

    def fit(self, source: "RowSource", seed: int) -> MappedRows:
        """Return the features of the rows, after passes for the sample and column statistics."""
        features = self.features(source, seed)
        return MappedRows(
            sources.source_of_features(source, features), passes=2, arrays=features.arrays
        )

    def features(self, source: "RowSource", seed: int) -> KernelFeatures:
        """Return the features, fitted to rows drawn by global numbers: the same for any chunks."""
        n = source.plan.n_rows
        drawn = stream(seed, Stream.FEATURE_SAMPLE, n).choice(
            n, min(n, self.n_components), replace=False
        )
        sample = source.fold(Gather(np.sort(drawn)), name="sample").rows.astype(np.float64)
        transformer = self._transformer(len(sample), sample.shape[1], seed)
        try:
            with sources.one_blas_thread(), np.errstate(all="ignore"):
                if _any_origin(transformer):
                    transformer.fit(sample - sample.mean(axis=0))
                    transformer.components_ = sample[transformer.component_indices_]
                else:
                    transformer.fit(_prepared_rows(transformer, sample, None))
        except ValueError as error:  # of what decomposes the matrix of the kernel
            raise InputError(
                f"the kernel {self.kernel!r} overflows among the rows drawn: {OVERFLOW_ADVICE}"
            ) from error
        return KernelFeatures.of(self.approximation, transformer)

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> KernelFeatures:
        """Return the features that a run stores.

        The arrays have the shapes that scikit-learn gives them: components (m, d) and normalization
        (m, m) of ``nystroem``, frequencies (d, m) and offsets (m,) of ``fourier``.
        """
        names = FITTED[self.approximation]
        first, last = (arrays[name] for name in names)
        d = first.shape[FITTED_COLUMNS[self.approximation]]
        transformer = self._transformer(len(last), d, 0)
        for name, attribute in names.items():
            setattr(transformer, attribute, arrays[name])
        transformer.n_features_in_ = d
        return KernelFeatures.of(self.approximation, transformer)

    def _transformer(self, n_rows: int, d: int, seed: int) -> "Nystroem | RBFSampler":
        """Return the map of scikit-learn, of which the Nystroem method takes all given rows as landmarks."""
        gamma = self.gamma
        if gamma is None:
            gamma = 1 / d
        if self.approximation == "fourier":
            return kernel_approximation.RBFSampler(
                gamma=gamma, n_components=self.n_components, random_state=seed
            )
        return kernel_approximation.Nystroem(
            kernel=self.kernel,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            n_components=n_rows,
            random_state=seed,
        )


def approximation_of(model: BaseEstimator) -> Approximation | None:
    """Return the approximation that the parameters of an estimator ask for; None without one.

    Raises
    ------
    InputError
        Parameters that cannot be used, or that nothing uses without an approximation.
    """
    asked = {each.name: getattr(model, each.name) for each in fields(Approximation)}
    if model.approximation is not None:
        return Approximation(**asked)
    usual = {each.name: each.default for each in fields(Approximation)}
    # The checks of scikit-learn set `n_components` on every estimator.
    idle = ("approximation", "n_components")
    given = [name for name, value in asked.items() if name not in idle and value != usual[name]]
    if given:
        advice = "give 'nystroem' or 'fourier'"
        raise InputError(f"{', '.join(given)} can be used with an approximation alone: {advice}")
    return None


def restored_features(result: "Result") -> Features | None:
    """Return the features that a run of an approximation keeps; None without an approximation."""
    parameters = result.manifest.parameters
    if not result.manifest.learned_features:
        return None
    names = [each.name for each in fields(Approximation)]
    return Approximation(**{name: parameters[name] for name in names}).restore(result.arrays)
