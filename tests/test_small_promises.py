"""Small promises of the public face, each of which was once broken."""

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from dask_dpmeans import (
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    fit,
    load,
    lower_bound,
    predict,
)
from dask_dpmeans.cli import main
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.selection.metrics import contingency, objective, objective_score, partition
from dask_dpmeans.selection.penalty import farthest_first, hdp_penalties, penalty_for, penalty_path
from dask_dpmeans.selection.tree import cluster_tree


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(center, 0.3, (60, 2)) for center in (0, 5, 10)])


# Numbers of data sets


@pytest.mark.parametrize("search", [False, True])
def test_numbers_of_data_sets_far_beyond_the_rows_are_refused_at_once(
    rows: np.ndarray, search: bool
) -> None:
    groups = np.zeros(len(rows), np.int64)
    groups[7] = 2**24 - 1
    message = (
        r"groups holds the data set 16,777,215, but there are only 180 rows.*np\.unique\(groups"
    )
    for given in (rows, da.from_array(rows, chunks=(50, 2))):
        with pytest.raises(InputError, match=message):
            HDPMeans(1.0, 1.0, search=search).fit(given, groups=groups)
    with pytest.raises(InputError, match=message):
        hdp_penalties(rows, 2, 3, groups=groups)


def test_gaps_between_the_numbers_of_data_sets_change_nothing(rows: np.ndarray) -> None:
    groups = np.arange(len(rows)) % 3
    near, far = (HDPMeans(1.0, 1.0).fit(rows, groups=groups * step) for step in (1, 100_000))
    assert near.objective_ == far.objective_
    assert np.array_equal(near.labels_, far.labels_)


def test_an_unknown_number_is_predicted_however_large(rows: np.ndarray) -> None:
    model = HDPMeans(1.0, 1.0).fit(rows, groups=np.arange(len(rows)) % 3)
    assert len(model.predict(rows[:2], groups=np.array([0, 2**24 - 1]))) == 2


@pytest.mark.parametrize(
    "groups",
    [
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], object),
        pd.Series(["b", "a", "b"]),
        ["b", "a", "b"],
    ],
    ids=["text", "objects", "series", "list"],
)
def test_names_of_data_sets_are_refused_with_the_way_to_number_them(groups: Any) -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    with pytest.raises(InputError, match=r"groups.*np\.unique\(groups, return_inverse=True\)\[1\]"):
        HDPMeans(1.0, 1.0).fit(X, groups=groups)
    with pytest.raises(InputError, match=r"labels.*np\.unique\(labels, return_inverse=True\)\[1\]"):
        partition(X, groups)


# Numbers


@pytest.mark.parametrize("penalty", [Fraction(7, 2), np.float32(3.5), np.longdouble(3.5)])
def test_a_penalty_of_any_real_type_is_the_same_number(
    rows: np.ndarray, penalty: Any, tmp_path: Path
) -> None:
    expected = DPMeans(3.5).fit(rows)
    for model in (DPMeans(penalty).fit(rows), fit(rows, tmp_path / "run.zarr", DPMeans(penalty))):
        assert model.objective_ == expected.objective_
        assert type(model.objective_) is float
    for other in (
        SpectralDPMeans(penalty),
        HDPMeans(penalty, penalty),
        KernelDPMeans(penalty, kernel="linear"),
    ):
        other.fit(rows)
    with pytest.raises(
        InputError, match=r"penalty must be a finite number > 0, got Decimal\('3.5'\)"
    ):
        DPMeans(Decimal("3.5")).fit(rows)


@pytest.mark.parametrize("value", [True, np.True_, np.array(3.5), "3.5", None])
def test_what_is_no_number_is_no_penalty(rows: np.ndarray, value: Any) -> None:
    with pytest.raises(InputError, match=r"penalty must be a (finite )?number > 0.*, got"):
        DPMeans(value).fit(rows)


# Kinds of input


EMPTY = np.empty((0, 2))


@pytest.mark.parametrize(
    "model",
    [
        DPMeans(1.0),
        HDPMeans(1.0, 1.0),
        KernelDPMeans(1.0),
        SpectralDPMeans(1.0),
        GibbsMixture(max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("lazily", [False, True])
def test_no_rows_are_an_error_of_ours(model: Any, lazily: bool, tmp_path: Path) -> None:
    given = da.from_array(EMPTY, chunks=(1, 2)) if lazily else EMPTY
    with pytest.raises(
        ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1"
    ):
        model.fit(given)
    groups = np.empty(0, np.int64) if isinstance(model, HDPMeans) else None
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\)"):
        fit(given, tmp_path / "run.zarr", model, groups=groups)


def test_a_graph_without_nodes_is_an_error_of_ours() -> None:
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\)"):
        GraphCutDPMeans(-0.5).fit(csr_array((0, 0)))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_is_refused_everywhere_as_scikit_learn_does(tmp_path: Path) -> None:
    rows, row = np.matrix([[0.0, 1.0], [2.0, 3.0]]), np.matrix([[1.0, 1.0]])
    plain = np.asarray(rows)
    calls = [
        lambda: DPMeans(1.0).fit(rows),
        lambda: DPMeans(1.0).fit(plain, sample_weight=row),
        lambda: DPMeans(1.0, init=rows).fit(plain),
        lambda: DPMeans(1.0).fit(plain).predict(rows),
        lambda: HDPMeans(1.0, 1.0).fit([rows, plain]),
        lambda: HDPMeans(1.0, 1.0).fit(plain, groups=row),
        lambda: GraphCutDPMeans(-0.5).fit(rows),
        lambda: KernelDPMeans(1.0).fit(rows),
        lambda: GibbsMixture(max_iter=1).fit(rows),
        lambda: fit(rows, tmp_path / "run.zarr", DPMeans(1.0)),
        lambda: fit(plain, tmp_path / "run.zarr", DPMeans(1.0), sample_weight=row),
        lambda: partition(plain, row),
        lambda: farthest_first(rows, 1),
    ]
    for call in calls:
        with pytest.raises(
            TypeError, match=r"must be no numpy\.matrix, which is not supported: pass np\.asarray"
        ):
            call()
        with pytest.raises(InputError, match=r"numpy\.matrix"):
            call()


def test_the_dask_array_of_an_xarray_is_read_in_parts(rows: np.ndarray, tmp_path: Path) -> None:
    expected = DPMeans(3.5).fit(rows)
    lazy = xarray.DataArray(rows, dims=("sample", "feature")).chunk(sample=50)
    model = DPMeans(3.5).fit(lazy)
    assert isinstance(model.labels_, da.Array)
    assert isinstance(model.predict(lazy), da.Array)
    assert model.objective_ == expected.objective_
    assert fit(lazy, tmp_path / "run.zarr", DPMeans(3.5)).objective_ == expected.objective_
    sets = HDPMeans(3.5, 3.5).fit([lazy, lazy])
    assert isinstance(sets.labels_, da.Array)
    weights = xarray.DataArray(np.ones(len(rows)), dims="sample").chunk(sample=50)
    assert DPMeans(3.5).fit(lazy, sample_weight=weights).objective_ == expected.objective_
    assert isinstance(DPMeans(3.5).fit(lazy.compute()).labels_, np.ndarray)


class Dataset:
    """What h5py gives, as far as it can be told: an array in a file, which NumPy would read whole."""

    chunks = None

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype, self.ndim = (
            values,
            values.shape,
            values.dtype,
            values.ndim,
        )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: Any) -> np.ndarray:
        return self.values[part]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise AssertionError("it was read whole")


def test_an_array_in_a_file_of_another_library_is_refused_with_a_way_out(
    rows: np.ndarray, tmp_path: Path
) -> None:
    stored = Dataset(rows)
    calls = [
        lambda: DPMeans(3.5).fit(stored),
        lambda: DPMeans(3.5).fit(rows).predict(stored),
        lambda: fit(stored, tmp_path / "run.zarr", DPMeans(3.5)),
        lambda: DPMeans(3.5).fit(rows, sample_weight=Dataset(np.ones(len(rows)))),
        lambda: HDPMeans(3.5, 3.5).fit([stored, rows]),
        lambda: HDPMeans(3.5, 3.5).fit(rows, groups=Dataset(np.zeros(len(rows), int))),
    ]
    for call in calls:
        with pytest.raises(
            InputError,
            match=r"Dataset, an array in a file.*dask\.array\.from_array\(\w+, chunks=\.\.\.\)",
        ):
            call()
    assert (
        DPMeans(3.5).fit(da.from_array(stored, chunks=(50, 2))).objective_
        == DPMeans(3.5).fit(rows).objective_
    )


# Estimators


@pytest.mark.parametrize("affinity", ["linear", "rbf", "nearest_neighbors", "precomputed"])
def test_what_an_affinity_can_do_is_the_same_before_a_fit_and_after(
    affinity: str, rows: np.ndarray
) -> None:
    given = rows @ rows.T if affinity == "precomputed" else rows
    model = SpectralDPMeans(0.5, affinity=affinity, random_state=0)
    names = ("transform", "fit_transform", "predict", "score", "embed")
    before = [hasattr(model, name) for name in names]
    model.fit(given)
    assert (
        [hasattr(model, name) for name in names]
        == before
        == [affinity in ("linear", "rbf")] * len(names)
    )
    if affinity == "linear":
        assert model.set_output(transform="pandas").transform(rows).shape == (
            len(rows),
            model.n_clusters_,
        )
        assert model.set_output(transform="default").fit_transform(rows).shape == (
            len(rows),
            model.n_clusters_,
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_loop_of_two_sweeps_each_goes_the_way_of_one_long_fit(rows: np.ndarray) -> None:
    centers = rows[[0, 1, 2]]
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        alone = DPMeans(1e9, init=centers, max_iter=1).fit(rows)
    assert np.array_equal(
        alone.cluster_centers_, centers
    )  # as documented: a fit keeps the centers that it scanned
    for turn in range(1, 6):
        centers = DPMeans(1e9, init=centers, max_iter=2, tol=0).fit(rows).cluster_centers_
        whole = DPMeans(1e9, init=rows[[0, 1, 2]], max_iter=turn + 1, tol=0).fit(rows)
        assert centers.tobytes() == whole.cluster_centers_.tobytes()


def test_the_objective_as_a_score_chooses_among_methods_and_prices(rows: np.ndarray) -> None:
    for model in (
        DPMeans(3.5),
        DPMeans(3.5, search=True, random_state=0),
        KernelDPMeans(0.5),
        SpectralDPMeans(5.0),
    ):
        model.fit(rows)
        assert objective_score(model, rows) == pytest.approx(-model.objective_, rel=1e-9)
    model = DPMeans(3.5).fit(rows)
    assert objective_score(model, rows, penalty=2.0) == pytest.approx(
        -objective(rows, model.labels_, 2.0), rel=1e-3
    )
    everything = [(np.arange(len(rows)), np.arange(len(rows)))]
    grid = {"search": [False, True], "tol": [0.0]}
    found = GridSearchCV(
        DPMeans(900.0, random_state=0), grid, scoring=objective_score, cv=everything
    ).fit(rows)
    assert found.best_params_["search"]
    with pytest.raises(InputError, match="estimator must have one penalty"):
        objective_score(HDPMeans(3.5, 3.5).fit(rows), rows)
    with pytest.raises(InputError, match="estimator must be one of this package with centers"):
        objective_score(GibbsMixture(max_iter=2).fit(rows), rows)


# What is printed


def test_the_repr_of_a_result_is_short(rows: np.ndarray) -> None:
    model = DPMeans(1.0, search=True, random_state=0).fit(rows)
    path = penalty_path(rows, np.geomspace(0.1, 100, 40), search=True, random_state=0)
    tree = cluster_tree(model)
    found = farthest_first(rows, 150)
    for result in (
        path,
        tree,
        tree.leaves,
        found,
        partition(rows, np.arange(len(rows))),
        contingency([0, 1], [1, 1]),
    ):
        assert repr(result).startswith(f"{type(result).__name__}(")
        assert len(repr(result)) < 800
        assert "\n" not in repr(result)
    assert "penalties=<float64 (40,)>" in repr(path)


def test_the_summaries_of_all_commands_are_whole_and_data_may_be_parquet() -> None:
    said = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    listed = re.findall(r"^  (\w+)  +(\S.*)$", said.partition("Commands:")[2], re.MULTILINE)
    context = click.Context(main)
    assert [name for name, _ in listed] == sorted(main.list_commands(context))
    assert len(listed) == 17
    assert all(summary.endswith(".") and not summary.endswith("...") for _, summary in listed)
    for name, _ in listed:
        command = main.get_command(context, name)
        assert command is not None
        if name not in ("anndata", "graph") and any(
            each.name == "data" and each.param_type_name == "argument" for each in command.params
        ):
            said = CliRunner().invoke(main, [name, "--help"], terminal_width=80).output
            assert "Parquet" in said.partition("DATA is")[2], name


def test_a_memory_beyond_all_numbers_is_wrong_use() -> None:
    said = CliRunner().invoke(
        main, ["fit", "rows.npy", "run.zarr", "--penalty", "4", "--memory-limit", "1e400"]
    )
    assert said.exit_code == 2
    assert "'1e400' is not a size such as 4GB" in said.output


def test_counts_have_separators_and_one_row_is_one_row(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([[0.0], [9.0], [9.5]]))
    runner = CliRunner()
    said = runner.invoke(
        main, ["fit", str(tmp_path / "rows.npy"), str(tmp_path / "run.zarr"), "--penalty", "4"]
    )
    assert "heaviest    1 (2 rows), 0 (1 row)" in said.output
    np.save(tmp_path / "one.npy", np.array([[0.0]]))
    places = [str(tmp_path / name) for name in ("run.zarr", "one.npy", "out.zarr")]
    assert "1 row labeled, 0 of them" in runner.invoke(main, ["predict", *places]).output
    np.save(tmp_path / "weights.npy", np.array([1055.37, 2.0, 3.0]))
    options = ["--penalty", "4", "--weights", str(tmp_path / "weights.npy"), "--force"]
    said = runner.invoke(
        main, ["fit", str(tmp_path / "rows.npy"), str(tmp_path / "run.zarr"), *options]
    )
    assert "(1055.37 in weight)" in said.output
    assert load(tmp_path / "run.zarr").n_clusters_ == 2


@pytest.mark.parametrize(
    "kind", [list, np.array, pd.Series, lambda given: pd.Series(given).astype("category")]
)
def test_groups_of_text_are_told_to_be_numbered_whatever_holds_them(kind: Any) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    with pytest.raises(
        InputError, match=r"groups must be integers from 0 on, got .*np\.unique\(groups"
    ) as error:
        HDPMeans(1.0, 1.0).fit(rows, groups=kind(list("ababab")))
    assert "could not convert" not in str(error.value)


def test_two_columns_of_one_name_are_refused_by_that_name() -> None:
    with pytest.raises(InputError, match=r"more than one column is called 'a': rename these"):
        DPMeans(3.0).fit(pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("aab")))


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("x.h5", r"h5py\.File\('x\.h5'\)\['NAME'\]\[:\]"),
        ("x.nc", r"xarray\.open_dataset\('x\.nc'\)\['NAME'\]\.values"),
    ],
)
def test_an_estimator_given_a_file_of_another_kind_says_what_opens_it(path: str, way: str) -> None:
    with pytest.raises(InputError, match=f"open it first, as {way} does"):
        DPMeans(3.0).fit(path)


@pytest.mark.parametrize("model", [DPMeans(1.0), OnlineDPMeans(1.0)])
def test_an_option_that_fit_does_not_know_is_an_error_that_names_no_class_of_ours(model):
    with pytest.raises(TypeError, match=r"^fit\(\) got an unexpected keyword argument 'threads'"):
        model.fit(np.eye(3), threads=3)


def test_an_option_that_is_no_option_is_refused_under_the_name_of_the_function(
    tmp_path: Path,
) -> None:
    rows, run = np.arange(12.0).reshape(6, 2), tmp_path / "run.zarr"
    with pytest.raises(
        TypeError,
        match=r"fit\(\) got an unexpected keyword argument 'threds': did you mean 'threads'",
    ):
        fit(rows, run, DPMeans(3.0), threds=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"predict\(\) got an unexpected keyword argument 'threds'"):
        predict(run, rows, tmp_path / "out.zarr", threds=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "function",
    [
        lambda rows, **wrong: penalty_path(rows, **wrong),
        lambda rows, **wrong: penalty_for(rows, 2, **wrong),
        lambda rows, **wrong: farthest_first(rows, 2, **wrong),
        lambda rows, **wrong: hdp_penalties([rows, rows], 2, 2, **wrong),
        lambda rows, **wrong: partition(rows, np.zeros(6, int), **wrong),
        lambda rows, **wrong: lower_bound(DPMeans(3.0).fit(rows), rows, **wrong),
    ],
    ids=[
        "penalty_path",
        "penalty_for",
        "farthest_first",
        "hdp_penalties",
        "partition",
        "lower_bound",
    ],
)
def test_functions_that_pass_options_on_refuse_them_under_their_own_name(
    function: Any, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    message = rf"^{name}\(\) got an unexpected keyword argument 'threds': did you mean 'threads'\?$"
    with pytest.raises(TypeError, match=message):
        function(np.arange(12.0).reshape(6, 2), threds=3)


def test_load_names_the_run_that_is_no_path() -> None:
    with pytest.raises(
        InputError, match=r"^run must be a path or URL, got DPMeans\(penalty=3\.0\)"
    ):
        load(DPMeans(3.0))  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"got <xarray\.Dataset> .*: give the path or URL of the st"
    ):
        fit(np.ones((2, 2)), xarray.Dataset(), DPMeans(3.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^run must be a path or URL, got None$"):
        load(None)  # type: ignore[arg-type]


def test_predict_with_an_estimator_in_the_place_of_a_run_says_what_to_call(tmp_path: Path) -> None:
    model: Any = DPMeans(3.0).fit(np.zeros((3, 2)))
    told = r"^run must be the path of a run, got DPMeans\(penalty=3\.0\): use model\.predict\(X\)"
    with pytest.raises(InputError, match=told):
        predict(model, np.zeros((3, 2)), tmp_path / "out")


def test_a_class_in_the_place_of_an_estimator_says_how_to_make_one(tmp_path: Path) -> None:
    message = r"^method must be an estimator, got the class DPMeans: give DPMeans\(\)$"
    with pytest.raises(InputError, match=message):
        fit(np.eye(3), tmp_path / "run.zarr", DPMeans)  # type: ignore[type-var]
