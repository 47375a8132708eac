"""Approximate feature maps of kernel functions, by scikit-learn: rows become features, whose inner products are about
the values of the kernel."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import Arrays, Learned
from dask_dpmeans.kernels.block import Features, Rows, Scratch, tiles
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.kernel_functions import SIMILARITIES, unit
from dask_dpmeans.methods.kernel.kernel_checks import checked_kernel
from dask_dpmeans.sources import RowSource, featured, one_blas_thread
from dask_dpmeans.storage.run_store import Result

TILE_ROWS = 2**10
"""Rows that are mapped together."""
FITTED = {
    "nystroem": {"feature_components": "components_", "feature_normalization": "normalization_"},
    "fourier": {"feature_frequencies": "random_weights_", "feature_offsets": "random_offset_"},
}
"""What scikit-learn's transformers learn, by the names under which a run keeps it."""
DIMENSIONS = {
    "feature_components": ("component", "column"),
    "feature_normalization": ("feature", "component"),
    "feature_frequencies": ("column", "feature"),
    "feature_offsets": ("feature",),
}


@dataclass(frozen=True)
class KernelFeatures:
    """A fitted transformer of scikit-learn, as what kernels see instead of the rows."""

    name: str
    """The approximation."""
    n_features: int
    """Columns that it makes."""
    digest: str
    """Of what it has learned; it tells one from another."""
    transformer: Any = field(compare=False, repr=False)

    @classmethod
    def of(cls, name: str, transformer: Any) -> "KernelFeatures":
        """The features that a fitted transformer makes."""
        learned = [getattr(transformer, attribute) for attribute in FITTED[name].values()]
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(values).tobytes() for values in learned)).hexdigest()
        return cls(name, learned[-1].shape[0], digest, transformer)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Align what came from another process: products of the transpose of what is not round otherwise."""
        self.__dict__.update(state)
        for attribute in FITTED[self.name].values():
            setattr(self.transformer, attribute, np.require(getattr(self.transformer, attribute), requirements=["A"]))

    @property
    def arrays(self) -> Arrays:
        """What a run keeps of it, by name, with the names of the dimensions."""
        return {
            name: (getattr(self.transformer, attribute), DIMENSIONS[name])
            for name, attribute in FITTED[self.name].items()
        }

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """The features of rows, (height, n_features), each as if it came alone."""
        answer = scratch.array("features", (len(rows), self.n_features), rows.dtype)
        with np.errstate(all="ignore"):
            for part, tile in tiles(rows, TILE_ROWS):
                answer[part] = self.transformer.transform(_known(self.transformer, tile))[: part.stop - part.start]
        return answer

    def complaint(self, place: str) -> str:
        """What to say of a row whose features are no numbers."""
        return f"the kernel overflows at {place}: divide the data by a constant first, or choose another kernel"


def _known(transformer: Any, rows: Rows) -> Rows:
    """Rows as their kernel should know them: scikit-learn's cosine takes lengths below 2.2e-15 for 0."""
    return unit(rows.astype(np.float64)) if getattr(transformer, "kernel", None) == "cosine" else rows


@dataclass(frozen=True)
class Approximation:
    """How a kernel is to be approximated."""

    approximation: str
    """"nystroem" or "fourier"."""
    kernel: str = "rbf"
    gamma: float | None = None
    """None for 1 / (number of columns)."""
    degree: int = 3
    coef0: float = 1.0
    n_components: int = 100
    """Features; of "nystroem" also the rows of the sample, no more than there are."""

    def __post_init__(self) -> None:
        if not (isinstance(self.approximation, str) and self.approximation in FITTED):
            raise InputError(
                f"approximation must be 'nystroem', 'fourier' or None, got {checks.shown(self.approximation)}"
            )
        names = ("rbf",) if self.approximation == "fourier" else tuple(SIMILARITIES)
        if not (isinstance(self.kernel, str) and self.kernel in names):
            listed = ", ".join(repr(name) for name in names)
            raise InputError(
                f"approximation={self.approximation!r} takes the kernel {listed}, got {checks.shown(self.kernel)}"
            )
        for name, value in checked_kernel(self.kernel, names, self.gamma, self.degree, self.coef0).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_components", checks.integer("n_components", self.n_components))

    @property
    def parameters(self) -> dict[str, Any]:
        """As JSON holds them."""
        return asdict(self)

    def check_weights(self, sample_weight: Any) -> None:
        """Nothing: weights go to the method."""

    def learn(self, source: RowSource, seed: int) -> Learned:
        """Features in place of the rows: a pass for the sample, and one that surveys them."""
        features = self.features(source, seed)
        return Learned(featured(source, features), passes=2, arrays=features.arrays)

    def features(self, source: RowSource, seed: int) -> KernelFeatures:
        """The features, fitted on rows drawn with the seed by their global numbers: the same for any chunks."""
        n = source.plan.n_rows
        drawn = np.random.default_rng([seed, n]).choice(n, min(n, self.n_components), replace=False)
        sample = source.fold(Gather(np.sort(drawn)), name="sample").rows.astype(np.float64)
        transformer = self._transformer(len(sample), sample.shape[1], seed)
        try:
            with one_blas_thread(), np.errstate(all="ignore"):
                transformer.fit(_known(transformer, sample))
        except ValueError as error:  # of what decomposes the matrix of the kernel
            raise InputError(
                f"the kernel {self.kernel!r} overflows among the rows drawn: divide the data by a constant first, or "
                "choose another kernel"
            ) from error
        return KernelFeatures.of(self.approximation, transformer)

    def restored(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> KernelFeatures:
        """The features that a run keeps."""
        names = FITTED[self.approximation]
        first, last = (arrays[name] for name in names)
        d = first.shape[1 if self.approximation == "nystroem" else 0]
        transformer = self._transformer(len(last), d, 0)
        for name, attribute in names.items():
            setattr(transformer, attribute, arrays[name])
        transformer.n_features_in_ = d
        return KernelFeatures.of(self.approximation, transformer)

    def _transformer(self, n_rows: int, d: int, seed: int) -> Nystroem | RBFSampler:
        gamma = 1 / d if self.gamma is None else self.gamma
        if self.approximation == "fourier":
            return RBFSampler(gamma=gamma, n_components=self.n_components, random_state=seed)
        return Nystroem(
            kernel=self.kernel,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            n_components=n_rows,
            random_state=seed,
        )


def approximation_of(model: Any) -> Approximation | None:
    """What an estimator asks for by the parameters of that name; None without an approximation.

    Raises
    ------
    InputError
        Parameters that cannot be used, or that nothing uses without an approximation.
    """
    asked = {name.name: getattr(model, name.name) for name in fields(Approximation)}
    if model.approximation is not None:
        return Approximation(**asked)
    usual = {name.name: name.default for name in fields(Approximation)}
    idle = ("approximation", "n_components")  # scikit-learn's own checks set the latter on every estimator
    given = [name for name, value in asked.items() if name not in idle and value != usual[name]]
    if given:
        raise InputError(f"{', '.join(given)} can be used with an approximation alone: give 'nystroem' or 'fourier'")
    return None


def restored_features(result: Result) -> Features | None:
    """Return the features that a run of an approximation keeps; None without an approximation."""
    told = result.manifest["parameters"]
    if "approximation" not in told:
        return None
    return Approximation(**{each.name: told[each.name] for each in fields(Approximation)}).restored(result.arrays)
