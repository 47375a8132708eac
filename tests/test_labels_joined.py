"""Labels go back to the table that the rows came from, by row; and what a run holds is opened by others."""

import re
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

from dask_dpmeans import DPMeans, fit, load

PAGE = Path(__file__).parent.parent / "examples" / "guide" / "reading-a-run.md"


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-9, 9, (3, 2))[rng.integers(3, size=200)] + rng.standard_normal((200, 2))
    return pd.DataFrame({"age": rows[:, 0], "city": ["x"] * 200, "income": rows[:, 1]})


@pytest.fixture
def folder(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in files of several heights, the folder that it is in being the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.parquet").mkdir()
    for number, part in enumerate(np.array_split(np.arange(200), 11)):
        frame.iloc[part].to_parquet(
            tmp_path / f"table.parquet/part.{number}.parquet", row_group_size=7
        )
    return tmp_path


def snippet(opening: str) -> str:
    """The block of Python in the guide that begins so."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    found = [block for block in blocks if block.startswith(opening)]
    assert len(found) == 1
    return found[0]


def test_the_guide_joins_labels_to_a_dask_table_by_row(folder: Path, frame: pd.DataFrame) -> None:
    names: dict[str, object] = {}
    exec(snippet("import dask.dataframe as dd\n"), names)
    expected = DPMeans(4.0).fit(frame[["age", "income"]].to_numpy()).labels_
    for name in ("labelled", "from_run"):
        table = names[name]
        assert isinstance(table, dd.DataFrame)
        assert table.npartitions == 11
        pd.testing.assert_frame_equal(
            table.compute().reset_index(drop=True), frame.assign(label=expected), check_dtype=False
        )


@pytest.fixture
def wide(frame: pd.DataFrame, folder: Path) -> dd.DataFrame:
    """The table with more columns, of which Dask reads few at a time from several files together."""
    extra = {f"c{number}": float(number) for number in range(12)}
    for file in (folder / "table.parquet").iterdir():
        pd.read_parquet(file).assign(**extra).to_parquet(file)
    return dd.read_parquet(folder / "table.parquet")


@pytest.mark.parametrize("change", ["none", "nullable", "query"])
def test_labels_of_few_columns_of_many_files_become_a_column(
    wide: dd.DataFrame, frame: pd.DataFrame, change: str
) -> None:
    if change == "nullable":
        wide = wide.astype({"age": "Float64"})
    if change == "query":
        wide = wide.query("c0 < 1")
    columns = ["income", "age"]
    model = DPMeans(4.0).fit(wide[columns], sample_weight=wide["c1"])
    expected = DPMeans(4.0).fit(frame[columns]).labels_
    labelled = wide.assign(cluster=model.labels_)
    labelled["again"] = model.predict(wide[columns])
    found = labelled.compute()
    assert labelled.npartitions == 11
    np.testing.assert_array_equal(found.age, frame.age)
    np.testing.assert_array_equal(found.cluster, expected)
    np.testing.assert_array_equal(found.again, expected)


def test_the_guide_labels_from_an_exported_model(folder: Path, frame: pd.DataFrame) -> None:
    X = frame[["age", "income"]].to_numpy()
    fit(X, "run.zarr", DPMeans(1.0), scale="std", columns=[1, 0])
    names: dict[str, object] = {"X": X}
    exec(snippet("from dask_dpmeans.api.export import"), names)
    expected = load("run.zarr").predict(X)
    np.testing.assert_array_equal(names["labels"], expected)
    np.testing.assert_array_equal(names["served"], expected)


def test_pandas_takes_labels_as_they_are(frame: pd.DataFrame) -> None:
    rows = frame[["age", "income"]]
    model = DPMeans(4.0).fit(rows)
    assert (
        frame.assign(label=model.labels_).groupby("label").size().tolist()
        == model.cluster_weights_.tolist()
    )


def test_a_run_is_opened_by_xarray_dask_and_zarr(frame: pd.DataFrame, tmp_path: Path) -> None:
    run = tmp_path / "run.zarr"
    model = fit(frame[["age", "income"]].to_numpy(), run, DPMeans(4.0))
    labels = model.labels_.compute()
    centers = model.cluster_centers_
    with xarray.open_zarr(run) as opened:
        np.testing.assert_array_equal(opened.labels, labels)
        weights = np.bincount(opened.labels, minlength=model.n_clusters_)
        np.testing.assert_array_equal(opened.cluster_weights, weights)
        assert opened.cluster_centers.dims == ("cluster", "feature")
    np.testing.assert_array_equal(da.from_zarr(run, component="labels"), labels)
    np.testing.assert_array_equal(zarr.open_group(run, mode="r")["cluster_centers"], centers)
