"""The registry: a method that is in one file and one line of it does all that the others do."""

import ast
import json
import pickle
import pkgutil
import re
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import lloyd
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from sklearn.base import BaseEstimator
from test_odd_calls import ESTIMATORS

import dask_dpmeans
from dask_dpmeans import DPMeans, InputError, fit, load, methods, predict
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli import main
from dask_dpmeans.engine.history import FIGURES
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.registry import METHODS, Entry
from dask_dpmeans.report import report
from dask_dpmeans.storage.array_spec import RUN_ARRAYS

ROWS = (
    np.concatenate([np.zeros((40, 2)), np.full((60, 2), 9.0)])
    + np.arange(200.0).reshape(100, 2) % 3
)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(
        METHODS, "Lloyd", Entry("lloyd", "lloyd", "Cluster rows by k-means.", "lloyd")
    )


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return str(tmp_path / "rows.npy")


@pytest.mark.parametrize("name", METHODS)
def test_each_entry_names_the_estimator_that_its_spec_is_of(name):
    assert METHODS[name].spec.estimator.__name__ == name


@pytest.mark.parametrize("name", METHODS)
def test_a_spec_travels_to_other_processes(name):
    spec = METHODS[name].spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_an_open_run_travels_to_other_processes(tmp_path):
    fit(ROWS, tmp_path / "run", DPMeans(9.0))
    run = open_run(tmp_path / "run")
    other = pickle.loads(pickle.dumps(run))
    assert other.spec == run.spec
    assert np.array_equal(other.model.predict(ROWS), run.model.predict(ROWS))


def test_the_schema_names_each_algorithm_once():
    schema = json.loads(files("dask_dpmeans").joinpath("schemas/show.json").read_text())
    modules = pkgutil.walk_packages(methods.__path__, f"{methods.__name__}.")
    classes = {getattr(import_module(each.name), "Method", None) for each in modules}
    names = [each.name for each in classes if hasattr(each, "name")]
    assert schema["properties"]["method"]["enum"] == sorted(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


@pytest.mark.usefixtures("registered")
def test_a_method_in_one_file_fits_stores_resumes_and_loads(tmp_path, data):
    run = str(tmp_path / "run.zarr")
    with pytest.warns(Warning, match="max_iter=1"):
        fit(data, run, lloyd.Lloyd(2, max_iter=1, random_state=0))
    model = fit(data, run, lloyd.Lloyd(2, max_iter=9, random_state=0), resume=True)
    assert model.get_params() == {"n_clusters": 2, "max_iter": 9, "random_state": 0}
    whole = lloyd.Lloyd(2, max_iter=9, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(model.cluster_centers_, whole.cluster_centers_)
    loaded = load(run)
    np.testing.assert_array_equal(np.asarray(loaded.labels_), whole.labels_)
    np.testing.assert_array_equal(loaded.first_rows_, [0, 1])  # an array that no other method has
    assert zarr.open_array(f"{run}/first_rows").metadata.dimension_names == ("cluster",)
    assert fit(data, run, lloyd.Lloyd(3, random_state=0), force=True).first_rows_.tolist() == [
        0,
        1,
        2,
    ]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("values", [np.array([0, 100]), np.array([0.0, 1.0]), np.array([0, 1, 2])])
def test_an_array_that_is_not_as_its_method_says_is_an_error_that_names_it(
    tmp_path, data, monkeypatch, values
):
    run = str(tmp_path / "run.zarr")
    result = lloyd.Method.result
    said = lambda *given: {**result(*given), "first_rows": (values, ("cluster",))}  # noqa: E731
    monkeypatch.setattr(lloyd.Method, "result", said)
    with pytest.raises(CorruptStoreError, match="the array first_rows"):
        fit(data, run, lloyd.Lloyd(2, random_state=0))


def test_a_run_with_an_array_that_no_method_has_is_not_removed(tmp_path, data):
    run = str(tmp_path / "run.zarr")
    fit(data, run, DPMeans(9.0, random_state=0))
    zarr.create_array(f"{run}/first_rows", data=np.arange(2))
    with pytest.raises(InputError, match="also holds first_rows, not written by this package"):
        fit(data, run, DPMeans(9.0, random_state=0), force=True)


@pytest.mark.parametrize(
    "name", [name for name, (model, _) in ESTIMATORS.items() if type(model).__name__ in METHODS]
)
def test_runs_have_the_arrays_that_their_methods_list(tmp_path, name):
    model, data = ESTIMATORS[name]
    run = tmp_path / "run.zarr"
    fit(data["X"], run, model, groups=data.get("groups"))
    specs = (*RUN_ARRAYS, *METHODS[type(model).__name__].spec.arrays)
    for found, array in zarr.open_group(run, mode="r").arrays():
        fitting = [
            spec.name
            for spec in specs
            if array.metadata.dimension_names == spec.dimensions
            and np.issubdtype(array.dtype, spec.dtype)
        ]
        assert found in [*FIGURES, *fitting]


@pytest.mark.usefixtures("registered")
def test_it_predicts_and_has_a_page_and_commands(tmp_path, data):
    run, out = str(tmp_path / "run.zarr"), str(tmp_path / "out.zarr")
    done = CliRunner().invoke(main, ["lloyd", data, run, "--clusters", "2", "--seed", "0"])
    assert done.exit_code == 0, done.output
    assert "told        2 clusters" in done.output
    assert "= inertia alone" in done.output
    assert predict(run, data, out).n_rows == 100
    report(run, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<dt>method</dt><dd>Lloyd</dd>" in page
    assert "dask-dpmeans lloyd" in page
    shown = CliRunner().invoke(main, ["show", run, "--json"])
    assert json.loads(shown.output)["method"] == "lloyd"
    assert "lloyd" in CliRunner().invoke(main, ["--help"]).output


def test_a_run_of_a_method_that_is_gone_is_an_error_that_names_it(tmp_path, data, monkeypatch):
    run = str(tmp_path / "run.zarr")
    with monkeypatch.context() as patch:
        patch.setitem(
            METHODS, "Lloyd", Entry("lloyd", "lloyd", "Cluster rows by k-means.", "lloyd")
        )
        fit(data, run, lloyd.Lloyd(2, random_state=0))
    with pytest.raises(CorruptStoreError, match="Lloyd"):
        load(run)


PACKAGE = Path(dask_dpmeans.__file__).parent
OWN_FILES = ("registry.py", "estimators/", "methods/")
"""Files that may know of one method: the registry, and the files of each method."""


def type_tests(tree):
    """Yield the tests of a syntax tree for the class of an estimator, or for the presence of a parameter."""
    classes = {each.__name__ for each in class_tree(dask_dpmeans)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            names = {ast.unparse(each).rpartition(".")[2] for each in ast.walk(node.args[1])}
            if names & classes:
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            searched = ast.unparse(node.comparators[0])
            yield from [ast.unparse(node)] * searched.endswith(
                ("parameters", "parameters']", "get_params()")
            )


def class_tree(package):
    """Return the classes of all estimators, and their bases in this package."""
    models = [getattr(package, name) for name in package.__all__]
    estimators = [
        each for each in models if isinstance(each, type) and issubclass(each, BaseEstimator)
    ]
    return {
        base
        for each in estimators
        for base in each.__mro__
        if base.__module__.startswith(package.__name__)
    }


def test_no_other_file_asks_an_estimator_for_its_class_or_a_run_for_a_parameter():
    files = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}
    found = {
        name: list(type_tests(ast.parse(file.read_text())))
        for name, file in files.items()
        if not name.startswith(OWN_FILES)
    }
    assert {name: tests for name, tests in found.items() if tests} == {}
    assert (
        list(type_tests(ast.parse("isinstance(x, a.HDPMeans | int), 'penalty' in run.parameters")))
        != []
    )
