"""Columns go by name: one rule, scikit-learn's, whatever the rows come in and whatever is asked of them."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

from dask_dpmeans import (
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
    fit,
    load,
    predict,
)
from dask_dpmeans.api.export import as_json, as_pipeline
from dask_dpmeans.api.fitting import dry_run
from dask_dpmeans.cli import main
from dask_dpmeans.estimators.checked_rows import rows_of
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.selection.metrics import partition
from dask_dpmeans.selection.penalty import (
    farthest_first,
    hdp_penalties,
    penalty_for,
    penalty_path,
    read_path,
    write_path,
)

NAMES = ["age", "income", "size"]
ROWS = np.random.default_rng(0).standard_normal((40, 3)) + np.arange(40)[:, None] % 2 * [
    9.0,
    0.0,
    3.0,
]
FRAME = pd.DataFrame(ROWS, columns=NAMES)

Form = Callable[[pd.DataFrame], Any]
NAMED: dict[str, Form] = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.DataFrame({name: frame[name].to_numpy() for name in frame}),
    "arrow": lambda frame: pa.table({name: frame[name].to_numpy() for name in frame}),
    "dask frame": lambda frame: dd.from_pandas(frame, npartitions=3),
    "xarray": lambda frame: xr.DataArray(
        frame.to_numpy(), dims=("row", "feature"), coords={"feature": list(frame)}
    ),
}
UNNAMED: dict[str, Form] = {
    "numpy": lambda frame: frame.to_numpy(),
    "numbers": lambda frame: frame.set_axis(range(frame.shape[1]), axis=1),
    "numbers, dask": lambda frame: dd.from_pandas(
        frame.set_axis(range(frame.shape[1]), axis=1), npartitions=2
    ),
    "dask": lambda frame: da.from_array(frame.to_numpy(), chunks=(17, 2)),
    "zarr": lambda frame: zarr.create_array({}, data=frame.to_numpy(), chunks=(16, 3)),
    "sparse": lambda frame: csr_array(frame.to_numpy()),
}
FORMS = NAMED | UNNAMED
MODELS: dict[str, Any] = {
    "radius": DPMeans(20.0),
    "price": DPMeans(20.0, search=True, random_state=0),
    "cosine": DPMeans(0.5, metric="cosine"),
    "online": OnlineDPMeans(20.0),
    "split-merge": SplitMergeDPMeans(20.0),
    "hdp": HDPMeans(20.0, 20.0),
    "kernel": KernelDPMeans(0.9),
    "features": KernelDPMeans(0.9, approximation="nystroem", n_components=10, random_state=0),
    "spectral": SpectralDPMeans(50.0),
    "landmarks": SpectralDPMeans(2.0, affinity="rbf", gamma=0.05, random_state=0),
}
UNLIKE = {
    "another order": FRAME[NAMES[::-1]],
    "another name": FRAME.rename(columns={"size": "weight"}),
    "fewer": FRAME[NAMES[:2]],
    "more": FRAME.assign(weight=1.0),
}
SWAPPED = (UNLIKE["another order"], UNLIKE["another name"])
ASKED = {name: FORMS[name] for name in ("pandas", "dask frame", "numpy", "dask")}


def outcome(ask: Callable[[Any], Any], rows: Any) -> str:
    """The first line of what is raised, or of what is warned about names; nothing where neither is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ask(rows)
        except ValueError as error:
            return str(error)
    return "\n".join(str(each.message) for each in caught if "feature names" in str(each.message))


def by_the_rule(name: str, at_fit: str, at_predict: str) -> str:
    """What scikit-learn says of rows with the right columns."""
    if (at_fit in NAMED) == (at_predict in NAMED):
        return ""
    if at_fit in NAMED:
        return f"X does not have valid feature names, but {name} was fitted with feature names"
    return f"X has feature names, but {name} was fitted without feature names"


def test_the_rule_is_that_of_scikit_learn() -> None:
    ours, theirs = DPMeans(20.0).fit(FRAME), KMeans(2, n_init=1).fit(FRAME)
    for frame in (*UNLIKE.values(), FRAME, FRAME.to_numpy()):
        expected = outcome(theirs.predict, frame).replace("KMeans", "DPMeans")
        assert outcome(ours.predict, frame) == expected
        if isinstance(frame, pd.DataFrame):
            for form in NAMED.values():
                assert outcome(ours.predict, form(frame)) == expected
    ours, theirs = DPMeans(20.0).fit(ROWS), KMeans(2, n_init=1).fit(ROWS)
    for frame in (FRAME, ROWS, ROWS[:, :2]):
        assert outcome(ours.predict, frame) == outcome(theirs.predict, frame).replace(
            "KMeans", "DPMeans"
        ).rstrip(".")


@pytest.mark.parametrize("at_fit", FORMS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_columns_go_by_name(model: Any, at_fit: str) -> None:
    model, name = model.fit(FORMS[at_fit](FRAME)), type(model).__name__
    assert list(getattr(model, "feature_names_in_", [])) == (NAMES if at_fit in NAMED else [])
    for ask, forms in ((model.predict, FORMS), (model.transform, ASKED), (model.score, ASKED)):
        for at_predict, form in forms.items():
            assert outcome(ask, form(FRAME)) == by_the_rule(name, at_fit, at_predict), (
                at_predict,
                ask,
            )
        if at_fit in NAMED:
            for form in NAMED.values():
                for frame in SWAPPED:
                    assert outcome(ask, form(frame)).startswith(
                        "The feature names should match those that were passed"
                    )


@pytest.mark.parametrize("form", FORMS)
def test_an_array_after_a_table_takes_its_names_away(form: str) -> None:
    rows, sampler = FORMS[form](FRAME), GibbsMixture(max_iter=2, random_state=0)
    for model in (DPMeans(20.0), sampler)[: 1 if form == "sparse" else 2]:
        assert hasattr(model.fit(FRAME), "feature_names_in_")
        assert hasattr(model.fit(rows), "feature_names_in_") == (form in NAMED)


@pytest.mark.parametrize("form", ["pandas", "dask frame"])
def test_names_that_are_text_in_part_are_refused_as_by_scikit_learn(form: str) -> None:
    frame = FRAME.set_axis(["a", 1, "c"], axis=1)
    with pytest.raises(
        TypeError,
        match="only supported if all input features have string names, but your input has",
    ):
        DPMeans(20.0).fit(NAMED[form](frame))
    assert (
        outcome(DPMeans(20.0).fit, FRAME.set_axis(["columns", "dims", "column_names"], axis=1))
        == ""
    )


@pytest.mark.parametrize("form", NAMED)
def test_batches_go_by_name_too(form: str) -> None:
    table, swapped = NAMED[form](FRAME), NAMED[form](FRAME[NAMES[::-1]])
    model = OnlineDPMeans(20.0).partial_fit(FRAME)
    centers = model.cluster_centers_.copy()
    with pytest.raises(InputError, match="names must be in the same order as they were in fit"):
        model.partial_fit(swapped)
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    assert model.partial_fit(table).cluster_weights_.sum() == 80
    assert "does not have valid feature names" in outcome(model.partial_fit, ROWS)


@pytest.mark.parametrize("form", NAMED)
def test_data_sets_in_a_list_have_the_same_names(form: str) -> None:
    make = NAMED[form]
    model = HDPMeans(20.0, 20.0).fit([make(FRAME[:20]), make(FRAME[20:])])
    assert list(model.feature_names_in_) == NAMES
    swapped = FRAME[NAMES[::-1]]
    for sets in ([make(FRAME[:20]), make(swapped[20:])], [make(FRAME), ROWS]):
        with pytest.raises(
            InputError, match=r"must have the same columns in one order, got .* in set 0 and"
        ):
            HDPMeans(20.0, 20.0).fit(sets)
    groups = np.zeros(40, np.int64)
    for ask in (
        lambda rows: model.predict([rows, rows]),
        lambda rows: model.predict(rows, groups=groups),
    ):
        assert outcome(ask, make(FRAME)) == ""
        assert "must be in the same order as they were in fit" in outcome(ask, make(swapped))
        assert "does not have valid feature names" in outcome(ask, ROWS)
    assert min(hdp_penalties([make(FRAME), make(FRAME)], 2, 2)) > 0


def stored(form: str, frame: pd.DataFrame, folder: Path) -> Any:
    """Rows for the functions that read from stores: paths too."""
    if form == "parquet":
        frame.to_parquet(folder / "table.parquet")
        return folder / "table.parquet"
    if form == "parquet, named":
        frame.assign(city="Ulm").to_parquet(folder / "more.parquet")
        return f"{folder / 'more.parquet'}#{','.join(frame)}"
    return FORMS[form](frame)


STORED = [
    "pandas",
    "polars",
    "arrow",
    "dask frame",
    "xarray",
    "parquet",
    "parquet, named",
    "numpy",
    "zarr",
]
TABLES = ["pandas", "polars", "arrow", "dask frame", "parquet"]
"""Tables, from which a run takes its columns by name, whatever is beside them."""


@pytest.mark.parametrize(
    "options", [{}, {"columns": [2, 0], "scale": "std"}], ids=["all", "chosen"]
)
@pytest.mark.parametrize("at_fit", STORED)
def test_runs_keep_names_and_predict_by_name(
    at_fit: str, options: dict[str, Any], tmp_path: Path
) -> None:
    named = at_fit not in UNNAMED
    model = fit(
        stored(at_fit, FRAME, tmp_path), tmp_path / "run", DPMeans(0.9, random_state=0), **options
    )
    assert list(getattr(load(tmp_path / "run"), "feature_names_in_", [])) == (
        NAMES if named else []
    )
    for form in STORED:
        same = named == (form not in UNNAMED)

        def ask(rows: Any) -> None:
            predict(tmp_path / "run", rows, tmp_path / "out", force=True)

        assert bool(outcome(ask, stored(form, FRAME, tmp_path))) != same
        labels = zarr.open_array(tmp_path / "out" / "label")[:]
        np.testing.assert_array_equal(labels, model.labels_.compute())
        if named and form not in UNNAMED:
            for name, frame in UNLIKE.items():
                said = outcome(ask, stored(form, frame, tmp_path))
                if form in TABLES and name in ("another order", "more"):
                    assert said == ""
                    labels = zarr.open_array(tmp_path / "out" / "label")[:]
                    np.testing.assert_array_equal(labels, model.labels_.compute())
                else:
                    assert said.startswith(
                        "The feature names should match those that were passed during fit"
                    )
    for form in FORMS:
        expected = by_the_rule("DPMeans", "pandas" if named else "numpy", form)
        assert outcome(model.predict, FORMS[form](FRAME)) == expected


def test_a_run_that_is_gone_on_with_keeps_its_names(tmp_path: Path) -> None:
    method = DPMeans(0.5, random_state=0, max_iter=1, tol=0)
    with pytest.warns(match="stopped at max_iter=1"):
        fit(FRAME, tmp_path / "run", method)
    swapped = FRAME.set_axis(NAMES[::-1], axis=1)
    with pytest.raises(InputError, match="must be in the same order as they were in fit"):
        fit(swapped, tmp_path / "run", DPMeans(0.5, random_state=0, tol=0), resume=True)
    with pytest.warns(
        match="X does not have valid feature names, but the run was fitted with feature names"
    ):
        model = fit(ROWS, tmp_path / "run", DPMeans(0.5, random_state=0, tol=0), resume=True)
    assert list(model.feature_names_in_) == NAMES


def test_rows_of_a_file_without_names_are_told_as_such(tmp_path: Path) -> None:
    model = DPMeans(0.5, random_state=0).fit(FRAME.iloc[:, :2])
    message = "X does not have valid feature names, but the run was fitted with feature names"
    np.save(tmp_path / "rows.npy", ROWS[:, :2])
    with pytest.warns(match=message):
        rows_of(tmp_path / "rows.npy", model)
    rows = ROWS.copy()
    rows[4, 2] = np.nan
    np.save(tmp_path / "wider.npy", rows)
    with pytest.warns(match=message), pytest.raises(InputError, match="row 4, column 2:"):
        rows_of(tmp_path / "wider.npy", model)


@pytest.mark.parametrize("options", [{}, {"columns": [2, 0]}], ids=["all", "chosen"])
def test_pipelines_and_exports_keep_names(options: dict[str, Any], tmp_path: Path) -> None:
    model = fit(FRAME, tmp_path / "run", DPMeans(0.9, random_state=0), scale="std", **options)
    served = as_pipeline(model)
    assert list(served.feature_names_in_) == json.loads(as_json(model))["column_names"] == NAMES
    np.testing.assert_array_equal(served.predict(FRAME), model.labels_.compute())
    for frame in UNLIKE.values():
        assert outcome(served.predict, frame) == outcome(model.predict, frame)
    assert "does not have valid feature names, but FunctionTransformer" in outcome(
        served.predict, ROWS
    )
    unnamed = DPMeans(9.0).fit(ROWS)
    assert json.loads(as_json(unnamed))["column_names"] is None
    assert not hasattr(as_pipeline(unnamed), "feature_names_in_")
    assert "X has 2 features, but" in outcome(as_pipeline(unnamed).predict, ROWS[:, :2])


def test_first_centers_are_of_the_same_columns(tmp_path: Path) -> None:
    swapped, model = FRAME[NAMES[::-1]], DPMeans(20.0).fit(FRAME)
    run = tmp_path / "run"
    fit(FRAME, run, DPMeans(20.0))
    centers = pd.DataFrame(model.cluster_centers_, columns=NAMES)
    for init in (model, run, centers):
        start = DPMeans(20.0, init=init)
        np.testing.assert_array_equal(start.fit(FRAME).labels_, model.labels_)
        for refused in (
            lambda start=start: start.fit(swapped),
            lambda start=start: fit(swapped, tmp_path / "other", start),
            lambda start=start: fit(FRAME, tmp_path / "other", start, columns=[2, 1, 0]),
        ):
            with pytest.raises(
                InputError,
                match="init holds centers of the columns 'age', 'income', 'size', the rows",
            ):
                refused()
        swapped.to_parquet(tmp_path / "t.parquet")
        with pytest.raises(InputError, match="init holds centers of the columns"):
            dry_run(tmp_path / "t.parquet", tmp_path / "other", start)
    assert not (tmp_path / "other").exists()
    chosen = fit(FRAME, tmp_path / "chosen", DPMeans(20.0), columns=[2, 0])
    again = fit(swapped, tmp_path / "other", DPMeans(20.0, init=chosen), columns=[0, 2])
    np.testing.assert_array_equal(again.labels_.compute(), chosen.labels_.compute())


@pytest.mark.parametrize("form", FORMS)
def test_what_chooses_penalties_takes_tables(form: str, tmp_path: Path) -> None:
    rows = FORMS[form](FRAME)
    assert farthest_first(rows, 2).penalty == farthest_first(ROWS, 2).penalty
    assert penalty_for(rows, 2, random_state=0).n_clusters == 2
    assert partition(rows, np.arange(40) % 2).sizes.tolist() == [20, 20]
    write_path(penalty_path(rows, [9.0, 99.0], random_state=0), tmp_path / "path")
    assert read_path(tmp_path / "path").asked["column_names"] == (NAMES if form in NAMED else None)


def test_names_of_clusters_go_out_under_the_names_of_the_estimator() -> None:
    model = DPMeans(20.0).fit(NAMED["dask frame"](FRAME)).set_output(transform="pandas")
    assert list(model.transform(FRAME)) == [
        f"dpmeans{number}" for number in range(model.n_clusters_)
    ]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        KMeans(2).fit(FRAME).get_feature_names_out(NAMES[::-1])
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        model.get_feature_names_out(NAMES[::-1])


def test_the_command_line_goes_by_name(tmp_path: Path) -> None:
    one, other, run = (
        str(tmp_path / name) for name in ("one.parquet", "other.parquet", "run.zarr")
    )
    pq.write_table(pa.table(FRAME), one)
    pq.write_table(pa.table(FRAME[NAMES[::-1]]), other)
    zarr.create_array(str(tmp_path / "rows.zarr"), data=ROWS)

    def call(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, words)
        return result.exit_code, result.output

    assert call("fit", one, run, "--penalty", "20", "--columns", "0,2", "--seed", "0")[0] == 0
    for rows in (other, f"{other}#{','.join(NAMES)}"):
        code, said = call("predict", run, rows, str(tmp_path / "labels"), "--force")
        assert (code, "Warning" in said) == (0, False)
        labels = zarr.open_array(tmp_path / "labels" / "label")[:]
        np.testing.assert_array_equal(labels, load(run).labels_.compute())
    code, said = call(
        "predict", run, str(tmp_path / "rows.zarr"), str(tmp_path / "labels"), "--force"
    )
    assert (code, "Warning: X does not have valid feature names, but the run" in said) == (0, True)
    code, said = call("fit", other, str(tmp_path / "next.zarr"), "--penalty", "20", "--init", run)
    assert (code, "init holds centers of the columns 'age', 'size', the rows are of" in said) == (
        2,
        True,
    )
