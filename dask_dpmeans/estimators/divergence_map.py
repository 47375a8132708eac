"""The options `divergence` and `missing` as a map of rows, which learns what it needs from the rows."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans import checks, sources
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.bregman import (
    CATEGORICAL,
    COLUMN_DIVERGENCES,
    MISSING,
    MIXED,
    MULTINOMIAL,
    PLAIN,
    ColumnDivergence,
)
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding, Layout, SumColumns, SumCosts, numbers_of
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.dpmeans.choice import leading_column
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from sklearn import impute

    from dask_dpmeans.sources import Names, RowSource
    from dask_dpmeans.storage import Result
else:
    impute = LazyModule("sklearn.impute")

SMOOTHING = 0.1
"""Default weight of the mean of all rows in smoothed columns."""
NEIGHBORS = 5
"""Rows whose mean is a missing value of the summary that a penalty is chosen from."""
MOST_CATEGORIES = 2**12
"""Most values of a categorical column; each is a column of the centers."""
ENCODING_ARRAYS = (
    ArraySpec("cluster_averages", ("cluster", "encoded")),
    ArraySpec("feature_means", ("feature",)),
    ArraySpec("feature_origins", ("feature",)),
    ArraySpec("column_factors", ("column",)),
    ArraySpec("column_categories", ("column",), np.integer),
)
"""Arrays of a run whose divergence is learned from the rows."""


@dataclass(frozen=True)
class DivergenceMap:
    """Divergences of columns as parameters; `fit` learns what they need of the rows."""

    divergence: Any
    """A name, a `ColumnDivergence`, or either for some columns, by name or number."""
    missing: str
    """What missing values are: "error", "observed" or "unscaled"."""
    smoothing: float
    """Weight of the mean of all rows in smoothed columns."""
    balance_columns: bool | None
    """Whether each column is divided by its mean cost; None: if columns have divergences of their
    own."""
    on_csr: bool = False
    """Whether the method works on encoded CSR rows; not a parameter."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON holds them."""
        given = vars(self).copy()
        del given["on_csr"]
        if isinstance(self.divergence, Mapping):
            given["divergence"] = {str(key): value for key, value in self.divergence.items()}
        kept = given["divergence"]
        values = kept.values() if isinstance(kept, dict) else [kept]
        own = [value for value in values if not isinstance(value, str)]
        if own:
            raise InputError(
                f"the divergence {own[0]!r} is a value, which a run cannot keep: name one of "
                f"{', '.join(map(repr, COLUMN_DIVERGENCES))}"
            )
        return given

    def check_weights(self, sample_weight: object) -> None:
        """Accept any weights."""

    def fit(self, source: "RowSource", seed: int) -> MappedRows:
        """Return encoded rows, after passes for the means, the costs and column statistics."""
        layout = self._layout(source)
        if source.scale is not None and set(layout.names) != {PLAIN}:
            raise InputError(
                f"scale cannot be used with divergence={self.divergence!r}: counts, shares and "
                "categories mean what they are; balance_columns=True gives columns equal costs"
            )
        zeros = source.n_values is not None and self.takes_csr
        if zeros:
            source = sources.with_csr(source, SumColumns)
        sums, passes = source.fold(SumColumns(layout), name="means"), 2
        _refuse_flaw(sums.flaw, layout, source)
        # the mean of a column without any value is any number that its divergence takes
        inside = np.array([float(kind.positive) for kind in layout.kinds])
        means = _ratio(sums.values, sums.weights[layout.inputs], inside[layout.inputs])
        factors = (sums.weights > 0).astype(np.float64)  # a column without any value does not count
        encoding = Encoding.of(layout, means, factors, self.smoothing, self.missing, zeros)
        if self._balanced:
            costs, passes = source.fold(SumCosts(encoding), name="column costs"), 3
            totals = np.add.reduceat(costs.values, layout.starts)
            factors = factors * _ratio(costs.weights, totals, 1.0)
            encoding = Encoding.of(layout, means, factors, self.smoothing, self.missing)
        doubles = replace(source, prepare=replace(source.prepare, dtype=np.dtype(np.float64)))
        squared = set(layout.names) == {PLAIN} and not self._balanced
        return MappedRows(
            sources.source_of_features(doubles, encoding),
            passes=passes,
            arrays=arrays_of(encoding),
            divergence=EncodedDivergence(encoding),
            flat=partial(complete_rows, EncodedDivergence(encoding)),
            leading=leading_column(source) if squared else None,
        )

    @property
    def takes_csr(self) -> bool:
        """Whether CSR rows stay so: if all columns have zeros alike."""
        if self.missing != "error" or self._balanced:
            return False
        named = isinstance(self.divergence, str) and self.divergence not in (CATEGORICAL, MIXED)
        return self.on_csr and named and COLUMN_DIVERGENCES[self.divergence].smoothed

    @property
    def _balanced(self) -> bool:
        if self.balance_columns is None:
            return isinstance(self.divergence, Mapping) or self.divergence == MIXED
        return self.balance_columns

    def _layout(self, source: "RowSource") -> Layout:
        """Return the encoded columns of the columns of a source."""
        categories, d = _categories_of(source), source.n_features
        names = names_of(self.divergence, set(categories), source.used_names, d)
        numbers = [
            (categories.get(column, 0) or _number_of_codes(source.summary, column))
            if name == CATEGORICAL
            else 0
            for column, name in enumerate(names)
        ]
        return Layout(names, tuple(numbers))


def names_of(
    divergence: Any, categorical: Set[int], names: "Names | None", d: int
) -> tuple[str | ColumnDivergence, ...]:
    """Return the divergence of each of d columns, of which some are categorical by their type."""
    if not (isinstance(divergence, Mapping) or divergence == MIXED):
        return (divergence,) * d
    found: list[str | ColumnDivergence] = [PLAIN] * d
    for column in categorical:
        found[column] = CATEGORICAL
    if isinstance(divergence, Mapping):
        for key, name in divergence.items():
            found[_column_number(key, names, d)] = name
    return tuple(found)


def _column_number(key: str | int, names: "Names | None", d: int) -> int:
    """Return the number of a column, by its name or number."""
    if names is not None and key in names:
        return list(names).index(str(key))
    if str(key).isdigit() and int(key) < d:
        return int(key)
    there = f"columns 0 to {d - 1}" if names is None else ", ".join(map(repr, names))
    raise InputError(f"divergence names the column {key!r}, which is not there: {there}")


def divergence_map(
    divergence: object, missing: object, smoothing: object, balance_columns: object
) -> DivergenceMap | None:
    """Return the checked parameters; None for squared errors of complete rows.

    Raises
    ------
    InputError
        A parameter that cannot be used.
    """
    treatment = checks.choice("missing", missing, MISSING)
    amount = checks.number("smoothing", smoothing)
    balanced = balance_columns
    if balanced is not None:
        balanced = checks.switch("balance_columns", balanced)
    if isinstance(divergence, Mapping):
        if not divergence:
            raise InputError("divergence names no column: give {'column': 'poisson'}, or one name")
        for key, name in divergence.items():
            _check_name(f"divergence[{key!r}]", name, COLUMN_DIVERGENCES)
    else:
        _check_name("divergence", divergence, (*COLUMN_DIVERGENCES, MIXED))
    if divergence == PLAIN and treatment == "error" and not balanced:
        return None
    return DivergenceMap(divergence, treatment, amount, balanced)


def _check_name(what: str, name: object, names: Any) -> None:
    if not isinstance(name, ColumnDivergence):
        checks.choice(what, name, names)


def restored_encoding(result: "Result") -> Encoding | None:
    """Return the encoding that a run keeps; None if it learned no divergence."""
    if "divergence" not in result.manifest.parameters:
        return None
    manifest, arrays = result.manifest, result.arrays
    parameters, categories = manifest.parameters, arrays["column_categories"]
    used = sources.used_names(manifest.column_names, manifest.input.columns)
    categorical = set(np.flatnonzero(categories).tolist())
    names = names_of(parameters["divergence"], categorical, used, len(categories))
    return Encoding.of(
        Layout(names, tuple(categories.tolist())),
        arrays["feature_means"],
        arrays["column_factors"],
        parameters["smoothing"],
        parameters["missing"],
        "feature_origins" in arrays,
    )


def arrays_of(encoding: Encoding) -> NamedArrays:
    """Return the arrays that a run stores, by name, with the names of the dimensions."""
    origins: NamedArrays = {}
    if encoding.takes_csr:
        origins = {"feature_origins": (encoding.origins, ("feature",))}
    return origins | {
        "feature_means": (encoding.means, ("feature",)),
        "column_factors": (encoding.scales, ("column",)),
        "column_categories": (np.array(encoding.layout.categories, np.int64), ("column",)),
    }


def _categories_of(source: "RowSource") -> dict[int, int]:
    """Return the number of categories of each used column that has them by its type."""
    for column, categories in source.categories.items():
        _check_number(column, len(categories))
    return {column: len(categories) for column, categories in source.categories.items()}


def _number_of_codes(summary: Summary, column: int) -> int:
    """Return the number of categories of a column of codes, one more than the greatest code."""
    highest = summary.highest[column]
    if not np.isfinite(highest):
        return 1
    _check_number(column, highest + 1)
    return int(highest) + 1


def _check_number(column: int, number: float) -> None:
    """Refuse too many categories."""
    if number > MOST_CATEGORIES:
        raise InputError(
            f"column {column} is categorical and has {number:g} categories, from 0 to its greatest "
            f"code, more than {MOST_CATEGORIES:,}: number codes from 0 on, or join rare categories"
        )


def _refuse_flaw(flaw: Float64Array, layout: Layout, source: "RowSource") -> None:
    """Refuse a number that its divergence cannot have; `flaw` is (1, 3), or (0, 3) for none."""
    for row, place, value in flaw:
        column, names = int(place), source.used_names
        shown = str(column) if names is None else repr(names[column])
        name, kind = layout.names[column], layout.kinds[column]
        way = "mend it, or choose another divergence for the column"
        if name == MULTINOMIAL and value == 0:
            way = "a row without counts has no shares: remove it, as X[X.sum(axis=1) > 0] does"
        raise InputError(
            f"data has {value:g} at row {int(row)}, column {shown}, but {name!r} takes "
            f"{numbers_of(name, kind)}: {way}"
        )


def _ratio(
    above: Float64Array, below: Float64Array, otherwise: float | Float64Array
) -> Float64Array:
    answer: Float64Array = np.full(above.shape, otherwise)
    return np.divide(above, below, out=answer, where=below > 0)


def complete_rows(divergence: EncodedDivergence, rows: Float64Array) -> Float64Array:
    """Return encoded rows, (n, n_features), of a summary in the flat space of costs, (n, D).

    A missing value is the mean of the nearest rows that have one (Troyanskaya et al. 2001).
    """
    flat = divergence.flat(rows)
    if not np.isnan(flat).any():
        return flat
    imputer = impute.KNNImputer(n_neighbors=NEIGHBORS, keep_empty_features=True)
    return np.asarray(imputer.fit_transform(flat), np.float64)
