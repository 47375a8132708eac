"""The attributes of an output as values: read and checked once, written once."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.storage.arrays import MALFORMED, MARKER
from dask_dpmeans.storage.location import Location

FORMAT = 8
"""Version of this layout; a reader refuses any other."""
KINDS = {
    "method": str,
    "parameters": dict,
    "versions": dict,
    "sources": dict,
    "checksummed": bool,
    "learned_features": bool,
}
"""Types of attributes of an output."""


WITH_ARTICLE = ("run", "path", "penalty", "tree")
"""Kinds of outputs that are countable nouns."""


def with_article(kind: str | None) -> str:
    """Return a kind of output with its article, if it has one."""
    return f"a {kind}" if kind in WITH_ARTICLE else str(kind)


@dataclass(frozen=True)
class InputDescription:
    """The rows that a run or a path is of."""

    shape: tuple[int, int]
    """Rows and columns of the input."""
    dtype: str
    columns: tuple[int, ...] | None
    """The columns that were used; None for all."""
    scaled: bool
    """Whether columns were divided by their standard deviations."""
    weighted: bool
    """Whether rows had weights."""
    block_rows: int
    """Rows of a block, which sums are taken over."""
    fingerprint: str = ""
    """Digest of sums over the columns; empty before the rows were read."""
    n_groups: int = 0
    """Number of data sets; 0 if they are not told apart, or before the rows were read."""
    categories: Mapping[int, tuple[str | int | float | bool, ...]] = field(default_factory=dict)
    """Categories of columns of codes, by column, in the order of the codes."""
    sparse: bool = False
    """Whether counts were encoded as CSR rows, which have other last bits than dense rows."""

    @property
    def n_columns(self) -> int:
        """Number of the columns that were used."""
        return self.shape[1] if self.columns is None else len(self.columns)

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON, without those known only after the rows are read."""
        columns = None if self.columns is None else list(self.columns)
        found = vars(self) | {"shape": list(self.shape), "columns": columns}
        del found["categories"]
        if self.categories:
            found["categories"] = {str(key): list(each) for key, each in self.categories.items()}
        if not self.fingerprint:
            del found["fingerprint"], found["n_groups"]
        if not self.sparse:
            del found["sparse"]
        return found

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the description that JSON holds; an error of `MALFORMED` names what is wrong."""
        usual = {"fingerprint": "", "n_groups": 0, "categories": {}, "sparse": False}
        fields: dict[str, Any] = usual | dict(given)
        found = {name: fields[name] for name in cls.__dataclass_fields__}
        shape, columns = found["shape"], found["columns"]
        pair = _is_list_of(int, shape) and len(shape) == 2 and min(shape) >= 1
        _require(pair, "input.shape", shape)
        listed = _is_list_of(int, columns) and all(0 <= each < shape[1] for each in columns)
        _require(columns is None or (listed and columns != []), "input.columns", columns)
        _require_kinds(found, dict.fromkeys(("scaled", "weighted", "sparse"), bool), "input.")
        _require_kinds(found, dict.fromkeys(("block_rows", "n_groups"), int), "input.")
        for name in ("block_rows", "n_groups"):
            _require(found[name] >= 0, f"input.{name}", found[name])
        _require(np.dtype(found["dtype"]).kind in "biuf", "input.dtype", found["dtype"])
        found |= {name: str(found[name]) for name in ("dtype", "fingerprint")}
        found |= {"shape": tuple(shape), "columns": columns and tuple(columns)}
        found["categories"] = _categories_of(found["categories"], shape[1])
        return cls(**found)


@dataclass(frozen=True)
class EstimatorDescription:
    """An estimator as a run keeps it."""

    name: str
    """Name of its class."""
    parameters: Mapping[str, Any]
    """As JSON holds them, without the random state: the seed of the run stands for it."""


@dataclass(frozen=True)
class Manifest:
    """The request that a run, a path or a search for a penalty was begun with."""

    kind: str
    """The kind of the output, such as "run"."""
    method: str
    """Name of the algorithm."""
    parameters: Mapping[str, Any]
    """Parameters of the algorithm, as JSON holds them."""
    random_state: int
    """The seed."""
    input: InputDescription
    column_names: tuple[str, ...] | None
    checksummed: bool
    """Whether the store of the input has checksums."""
    versions: Mapping[str, str]
    """Versions of this package and of those that the bytes of a result depend on."""
    estimator: EstimatorDescription = EstimatorDescription("", {})
    """Of a run alone."""
    learned_features: bool = False
    """Whether the method saw features that the fit had learned from the rows."""
    sources: Mapping[str, str | None] = field(default_factory=dict)
    """Paths of the input without credentials; None for data in memory."""
    grid: Mapping[str, Any] | None = None
    """Sizes of the dimensions of samples and features of a cube, its variables, and the arrays of
    the output on its grid; None for other input."""
    choice: Mapping[str, Any] | None = None
    """The choice of the penalty, as JSON holds it; None if the penalty was given."""

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as an output keeps them."""
        names = None if self.column_names is None else list(self.column_names)
        found = {"format": FORMAT} | {
            name: getattr(self, name) for name in Manifest.__dataclass_fields__
        }
        found |= {"input": self.input.as_json(), "column_names": names}
        found["estimator"] = dict(vars(self.estimator))
        for name in ("choice", "grid"):
            if found[name] is None:
                del found[name]
        if not self.estimator.name:
            del found["estimator"], found["learned_features"]
        return found

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the manifest in the attributes of an output; an error names what is wrong."""
        return cls(**cls._fields_of(given))

    @classmethod
    def _fields_of(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "sources": {},
            "choice": None,
            "grid": None,
            "learned_features": False,
            "estimator": None,
            **given,
        }
        values = {name: fields[name] for name in Manifest.__dataclass_fields__}
        names, seed = values["column_names"], values["random_state"]
        values["input"] = InputDescription.from_json(values["input"])
        _require(type(seed) is int and seed >= 0, "random_state", seed)
        width = values["input"].shape[1]
        called = names is None or (_is_list_of(str, names) and len(names) == width)
        _require(called, "column_names", names)
        _require_kinds(values, KINDS)
        paths = values["sources"].values()
        paths_fit = all(path is None or type(path) is str for path in paths)
        _require(paths_fit, "sources", values["sources"])
        values["column_names"] = None if names is None else tuple(names)
        _require(values["grid"] is None or _is_grid(values["grid"]), "grid", values["grid"])
        values["estimator"] = _estimator_of(values["estimator"])
        return values


@dataclass(frozen=True)
class ResultManifest(Manifest):
    """The request of a finished run, with the figures and names of its result."""

    converged: bool = False
    n_passes: float = 0.0
    """Rows read, divided by the number of rows."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Numbers that belong to features learned from the rows, by name."""
    arrays: tuple[str, ...] = ()
    """Names of the small arrays of the result."""

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as a finished run keeps them."""
        ended = {"converged": self.converged, "n_passes": self.n_passes}
        return super().as_json() | ended | dict(self.figures) | {"arrays": list(self.arrays)}

    @classmethod
    def _fields_of(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        values = super()._fields_of(given)
        required = ("converged", "arrays", "n_passes", "learned_features", "sources")
        values |= {name: given[name] for name in required}
        arrays = values["arrays"]
        _require_kinds(values, {"converged": bool})
        _require(_is_list_of(str, arrays), "arrays", arrays)
        _require(("feature_scale" in arrays) == values["input"].scaled, "arrays", arrays)
        _require(given.get("estimator") is not None, "estimator", None)
        figures = {
            name: value for name, value in given.items() if name not in values and name != "format"
        }
        for name, value in {"n_passes": given["n_passes"], **figures}.items():
            _require(type(value) in (int, float) and math.isfinite(value), name, value)
        return values | {"arrays": tuple(arrays), "figures": figures}


def _categories_of(given: Any, width: int) -> dict[int, tuple[str | int | float | bool, ...]]:
    """Return categories by column, of which there are `width`."""
    _require(type(given) is dict, "input.categories", given)
    for key, each in given.items():
        column = type(key) is str and key.isdecimal() and int(key) < width
        plain = type(each) is list and all(type(one) in (str, int, float, bool) for one in each)
        _require(column and plain, "input.categories", given)
    return {int(key): tuple(each) for key, each in given.items()}


def _is_grid(grid: Any) -> bool:
    """Return whether JSON holds the grid of a cube."""
    if type(grid) is not dict or set(grid) != {"samples", "features", "variables", "arrays"}:
        return False
    sizes = grid["samples"], grid["features"]
    fits = all(type(each) is dict and _is_list_of(int, list(each.values())) for each in sizes)
    return fits and _is_list_of(str, grid["variables"]) and _is_list_of(str, grid["arrays"])


def _estimator_of(estimator: Any) -> EstimatorDescription:
    if estimator is None:
        return EstimatorDescription("", {})
    fits = type(estimator) is dict and type(estimator["name"]) is str
    _require(fits and type(estimator["parameters"]) is dict, "estimator", estimator)
    return EstimatorDescription(estimator["name"], estimator["parameters"])


def _is_list_of(kind: type[object], value: Any) -> bool:
    return type(value) is list and all(type(each) is kind for each in value)


def _require_kinds(
    given: Mapping[str, Any], kinds: Mapping[str, type[object]], where: str = ""
) -> None:
    for name, kind in kinds.items():
        _require(type(given[name]) is kind, f"{where}{name}", given[name])


def _require(fits: bool, name: str, value: object) -> None:
    if not fits:
        raise ValueError(f"{name} cannot be {describe_value(value)}")


def checked_attributes(attributes: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the description in the attributes of an output at a path; refuse other formats."""
    found: dict[str, Any] = attributes[MARKER]
    if found.get("format") != FORMAT:
        raise InputError(
            f"{path} is of format {found.get('format')!r}, this version reads format {FORMAT}: "
            "open it with the version that wrote it, or make it again"
        )
    return found


@contextmanager
def malformed_as_corrupt(location: Location, kind: str = "run") -> Iterator[None]:
    """Raise `CorruptStoreError` for errors of `MALFORMED` about attributes written by others."""
    try:
        yield
    except (InputError, CorruptStoreError):
        raise
    except MALFORMED as error:
        raise CorruptStoreError(
            f"{location.url}/zarr.json: the attributes do not describe a {kind} of this package: {error}"
        ) from error
