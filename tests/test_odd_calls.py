"""Odd arguments of public functions: errors of this package that name the parameter.

The tables below hold one sound call of each public function.  Each of its parameters, as its signature names them, is
given odd values in turn, so that a new parameter without a check, or a new function without a call, fails here.
"""

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from anndata import AnnData
from matplotlib.figure import Figure
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone

import dask_dpmeans
from dask_dpmeans import (
    CorruptStoreError,
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
    TooManyClustersError,
    fit,
    load,
)
from dask_dpmeans.estimators.gibbs import GibbsMixture, limit_concentration
from dask_dpmeans.figures import data
from dask_dpmeans.selection.penalty import penalty_path, write_path
from dask_dpmeans.selection.tree import cluster_tree, write_tree

ROWS = np.array([[0.0, 0.1], [0.2, 0.0], [0.1, 0.3], [9.0, 9.1], [9.2, 9.0], [9.1, 9.3]])
GRAPH = csr_array(np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3)) + 0.1 * np.eye(6)[::-1])
LABELS = np.array([0, 0, 0, 1, 1, 1])


class Anything:
    """A class that takes any arguments."""

    def __init__(self, *_: Any, **__: Any) -> None: ...


ODD = {
    "none": None,
    "true": True,
    "numpy true": np.True_,
    "text": "three",
    "empty text": "",
    "bytes": b"three",
    "number in a text": "3",
    "float": 2.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "zero": 0,
    "minus one": -1,
    "small": 5e-324,
    "huge": 10**30,
    "beyond floats": 10**400,
    "float32": np.float32(1.5),
    "int8": np.int8(2),
    "uint64": np.uint64(2),
    "longdouble": np.longdouble(1.5),
    "fraction": Fraction(3, 2),
    "beyond floats, a fraction": Fraction(10**400, 3),
    "decimal": Decimal("1.5"),
    "complex": 1 + 2j,
    "0-d": np.array(1.5),
    "0-d integer": np.array(2),
    "one in an array": np.array([1.5]),
    "list": [1, 2],
    "empty list": [],
    "list of texts": ["a"],
    "nested": [[1.0, 2.0], [3.0]],
    "tuple": (1.0, 2.0),
    "mapping": {"a": 1},
    "set": {1},
    "function": lambda *_, **__: None,
    "object": object(),
    "type": Anything,
}
"""Values that someone may give for anything."""

EXTREME = {"huge", "small", "minus one", "zero"}
"""Of these some are sound, and lead to what has no number."""
OURS = (InputError, TooManyClustersError, CorruptStoreError)
DATA = {
    "X",
    "data",
    "sample_weight",
    "groups",
    "labels",
    "labels_true",
    "labels_pred",
    "graph",
    "init",
}
DATA |= {"model", "estimator", "tree", "path", "adata"}
"""Parameters that are arrays or models, whose errors say more than what they must be."""
PLACES = {"run", "out", "store", "path"}
LEFT_OUT = {"y", "self", "figure", "ax"}
"""What scikit-learn wants there, and is ignored; what matplotlib takes."""
FEW = (
    "none",
    "numpy true",
    "text",
    "nan",
    "minus one",
    "float",
    "fraction",
    "list",
    "mapping",
    "object",
)
SLOW = {"fit", "fit_anndata", "report", "predict", "dry_run"}
"""Functions that are given a few of them, as a call takes its time; the others share their checks."""
FEWEST = ("none", "text", "nan", "object")
"""What a report is given: each makes all its pictures, though it draws none."""

ESTIMATORS: dict[str, tuple[BaseEstimator, dict[str, Any]]] = {
    "DPMeans": (DPMeans(4.0, max_iter=5), {"X": ROWS}),
    "DPMeans, search": (DPMeans(4.0, search=True, max_iter=5, random_state=0), {"X": ROWS}),
    "HDPMeans": (HDPMeans(4.0, 4.0, max_iter=5), {"X": ROWS, "groups": LABELS}),
    "HDPMeans, search": (
        HDPMeans(4.0, 4.0, search=True, max_iter=5),
        {"X": ROWS, "groups": LABELS},
    ),
    "KernelDPMeans": (KernelDPMeans(0.5, kernel="poly", gamma=0.5, max_iter=5), {"X": ROWS}),
    "KernelDPMeans, Nystroem": (
        KernelDPMeans(0.5, approximation="nystroem", n_components=3, random_state=0, max_iter=5),
        {"X": ROWS},
    ),
    "KernelDPMeans, Fourier": (
        KernelDPMeans(0.5, approximation="fourier", n_components=3, random_state=0, max_iter=5),
        {"X": ROWS},
    ),
    "SpectralDPMeans": (SpectralDPMeans(0.5, max_iter=5), {"X": ROWS}),
    "SpectralDPMeans, rbf": (
        SpectralDPMeans(0.5, affinity="rbf", n_landmarks=3, random_state=0),
        {"X": ROWS},
    ),
    "SpectralDPMeans, neighbors": (
        SpectralDPMeans(0.5, affinity="nearest_neighbors", n_neighbors=2, random_state=0),
        {"X": ROWS},
    ),
    "GraphCutDPMeans": (GraphCutDPMeans(-0.5, random_state=0), {"X": GRAPH}),
    "GraphCutDPMeans, mean": (GraphCutDPMeans(-0.5, init="mean"), {"X": GRAPH}),
    "LinkageDPMeans": (LinkageDPMeans(-0.5, 0.05, max_iter=5, random_state=0), {"X": ROWS}),
    "LinkageDPMeans, chosen": (LinkageDPMeans(n_clusters=2, random_state=0), {"X": ROWS}),
    "OnlineDPMeans": (OnlineDPMeans(4.0), {"X": ROWS}),
    "SplitMergeDPMeans": (SplitMergeDPMeans(4.0), {"X": ROWS}),
    "GibbsMixture": (
        GibbsMixture(
            variance_prior=(1.0, 1.0), concentration_prior=(1.0, 1.0), max_iter=3, random_state=0
        ),
        {"X": ROWS},
    ),
}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, runs, a path and a tree."""
    folder = tmp_path_factory.mktemp("there")
    np.save(folder / "rows.npy", ROWS)
    np.save(folder / "labels.npy", LABELS)
    fit(str(folder / "rows.npy"), folder / "run.zarr", DPMeans(4.0, random_state=0))
    fit(
        str(folder / "rows.npy"),
        folder / "hdp.zarr",
        HDPMeans(4.0, 4.0),
        groups=str(folder / "labels.npy"),
    )
    write_path(penalty_path(ROWS, [1.0, 4.0]), folder / "path.zarr")
    write_tree(cluster_tree(load(folder / "run.zarr")), folder / "tree.zarr")
    return folder


def calls(there: Path, new: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """One sound call of each public function, by its name, as the module that has it and its arguments."""
    rows, labels, run = str(there / "rows.npy"), str(there / "labels.npy"), str(there / "run.zarr")
    model = DPMeans(4.0, random_state=0).fit(ROWS)
    sets = HDPMeans(4.0, 4.0).fit(ROWS, groups=LABELS)
    path = penalty_path(ROWS, [1.0, 4.0])
    linked = LinkageDPMeans(-0.5, 0.05, random_state=0).fit(ROWS)
    return {
        "fit": (
            "estimators",
            {"data": rows, "run": str(new / "run.zarr"), "method": model, "force": True},
        ),
        "fit_anndata": (
            "estimators",
            {"adata": AnnData(ROWS), "method": model, "rep": "X", "run": str(new / "cells.zarr")}
            | {"force": True},
        ),
        "dry_run": ("estimators", {"data": rows, "run": str(new / "none.zarr"), "method": model}),
        "load": ("estimators", {"run": run}),
        "predict": (
            "run",
            {"run": run, "data": rows, "out": str(new / "labelled.zarr"), "force": True},
        ),
        "lower_bound": ("estimators", {"model": model, "X": rows}),
        "partition": ("metrics", {"X": rows, "labels": labels}),
        "inertia": ("metrics", {"X": rows, "labels": labels}),
        "objective": ("metrics", {"X": rows, "labels": labels, "penalty": 4.0}),
        "objective_score": ("metrics", {"estimator": model, "X": ROWS}),
        "contingency": ("metrics", {"labels_true": labels, "labels_pred": LABELS}),
        "agreement": ("metrics", {"labels_true": labels, "labels_pred": LABELS}),
        "adjusted_rand_score": ("metrics", {"labels_true": labels, "labels_pred": LABELS}),
        "normalized_mutual_info_score": ("metrics", {"labels_true": labels, "labels_pred": LABELS}),
        "v_measure_score": ("metrics", {"labels_true": labels, "labels_pred": LABELS}),
        "farthest_first": ("penalty", {"X": rows, "k": 2}),
        "penalty_path": ("penalty", {"X": ROWS, "penalties": [1.0, 4.0], "random_state": 0}),
        "penalty_for": ("penalty", {"X": ROWS, "n_clusters": 2, "random_state": 0}),
        "hdp_penalties": (
            "penalty",
            {"data": ROWS, "local_clusters": 1, "global_clusters": 2, "groups": LABELS},
        ),
        "read_path": ("penalty", {"path": str(there / "path.zarr")}),
        "write_path": ("penalty", {"path": path, "out": str(new / "path.zarr"), "force": True}),
        "cluster_tree": ("tree", {"model": model, "penalties": [1.0, 400.0]}),
        "read_tree": ("tree", {"path": str(there / "tree.zarr")}),
        "write_tree": (
            "tree",
            {"tree": cluster_tree(model), "out": str(new / "tree.zarr"), "force": True},
        ),
        "limit_concentration": ("gibbs", {"penalty": 4.0, "variance": 1.0, "n_features": 2}),
        "export": ("export", {"run": run, "out": str(new / "model.json"), "force": True}),
        "as_json": ("export", {"model": model}),
        "as_pipeline": ("export", {"model": model}),
        "report": (
            "report",
            {"store": run, "out": str(new / "run.html"), "data": ROWS, "force": True},
        ),
        "plot.path": ("plot", {"path": path}),
        "plot.history": ("plot", {"model": model}),
        "plot.sizes": ("plot", {"model": model}),
        "plot.tree": ("plot", {"tree": cluster_tree(model)}),
        "plot.choice": ("plot", {"model": DPMeans(random_state=0).fit(ROWS)}),
        "plot.profile": ("plot", {"model": model}),
        "plot.sharing": ("plot", {"model": sets}),
        "plot.merges": ("plot", {"model": linked}),
        "plot.density": ("plot", {"X": ROWS, "model": model}),
        "plot.graph": ("plot", {"graph": GRAPH, "labels": LABELS}),
        "plot.flows": ("plot", {"flows": data.flows([LABELS, LABELS])}),
    }


MODULES: dict[str, set[str]] = {
    "selection.metrics": {"agreement_of"},
    "selection.bounds": set(),
    "selection.penalty": {"stored_path"},
    "selection.tree": set(),
    "api.export": set(),
    "report": {"page", "checked_target", "run_with_rows"},
    "figures.plot": {
        *("svg", "choose_spaced", "place_labels", "cluster_colors", "colors_by_weight"),
        *("row_map", "label_map", "pairs", "png", "image"),
    },
}
"""Where public functions are, and those there that serve others of the package."""


def public_functions() -> dict[str, Callable[..., Any]]:
    """All functions of the modules that the README names."""
    found = {name: getattr(dask_dpmeans, name) for name in dask_dpmeans.__all__}
    found["limit_concentration"] = limit_concentration
    for name, hidden in MODULES.items():
        module = importlib.import_module(f"dask_dpmeans.{name}")
        own = {
            each
            for each, value in vars(module).items()
            if str(getattr(value, "__module__", "")).startswith(module.__name__)
        }
        names = set(getattr(module, "__all__", own)) - set(hidden)
        here = {each: getattr(module, each) for each in names if not each.startswith("_")}
        found |= {
            f"plot.{each}" if name == "figures.plot" else each: value
            for each, value in here.items()
        }
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


def parameters_of(function: Callable[..., Any]) -> Iterator[str]:
    """The parameters of a function, and the options that it takes by name."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield name
            continue
        options = get_type_hints(function, include_extras=True)[name].__args__[0]
        yield from options.__annotations__ if options.__bases__ == (dict,) else ()


def check(name: str, call: Callable[[], Any], value: str) -> None:
    """Make a call; what it raises, if anything, is of this package and names the parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except OURS as error:
            said = str(error)
            if name not in DATA | PLACES and value not in EXTREME:
                assert name in said or name.replace("_", " ") in said, (
                    f"{name}={value}: the error does not name it: {said}"
                )
        except (TypeError, ValueError) as error:
            sklearns = name in DATA and not isinstance(error, InputError) and from_sklearn(error)
            if not sklearns:
                pytest.fail(f"{name}={value}: {type(error).__name__}: {error}")
        except Exception as error:  # any other class is a failure
            pytest.fail(f"{name}={value}: {type(error).__name__}: {error}")


def from_sklearn(error: BaseException) -> bool:
    """Whether the error was raised in what scikit-learn checks arrays with, whose words its users know."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return "sklearn" in last


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_an_odd_parameter_of_an_estimator_is_refused_by_name_or_does_what_it_says(
    name: str,
) -> None:
    model, data = ESTIMATORS[name]
    clone(model).fit(**data)
    for parameter in model.get_params(deep=False):
        for value, odd in ODD.items():
            changed = clone(model)
            setattr(changed, parameter, odd)
            check(parameter, lambda changed=changed: changed.fit(**data), value)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_an_odd_argument_of_fit_is_refused(name: str) -> None:
    model, data = ESTIMATORS[name]
    for parameter in set(inspect.signature(type(model).fit).parameters) - LEFT_OUT:
        for value, odd in ODD.items():
            check(parameter, lambda given=data | {parameter: odd}: clone(model).fit(**given), value)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_a_fit_from_store_to_store_takes_what_fit_takes(name: str, tmp_path: Path) -> None:
    model, data = ESTIMATORS[name]
    if isinstance(model, OnlineDPMeans | SplitMergeDPMeans):
        return
    for parameter in model.get_params(deep=False):
        for value in (
            "numpy true",
            "fraction",
            "float32",
            "int8",
            "uint64",
            "longdouble",
            "0-d integer",
        ):
            changed = clone(model)
            setattr(changed, parameter, ODD[value])
            given = {
                "data": data["X"],
                "run": tmp_path / "run.zarr",
                "method": changed,
                "force": True,
            }
            given |= {"groups": data["groups"]} if "groups" in data else {}
            check(parameter, lambda given=given: fit(**given), value)


def test_each_public_function_has_a_call_here(there: Path, tmp_path: Path) -> None:
    assert public_functions().keys() == calls(there, tmp_path).keys()
    estimators = {type(model).__name__ for model, _ in ESTIMATORS.values()}
    assert estimators == {
        name
        for name in (*dask_dpmeans.__all__, "GibbsMixture")
        if inspect.isclass(found := getattr(dask_dpmeans, name, GibbsMixture))
        and issubclass(found, BaseEstimator)
    }


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_an_odd_argument_of_a_function_is_refused_by_name_or_does_what_it_says(
    name: str, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    _, given = calls(there, tmp_path / "new")[name]
    function = public_functions()[name]
    function(**given)
    if name == "report":  # its pictures are drawn once
        monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    values = FEW if name in SLOW or name.startswith("plot.") else ODD
    for parameter in parameters_of(function):
        if parameter in LEFT_OUT:
            continue
        for value in FEWEST if name == "report" else values:
            odd = ODD[value]
            check(
                parameter,
                lambda odd=odd, parameter=parameter: function(**given | {parameter: odd}),
                value,
            )
