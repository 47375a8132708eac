"""Columns that are not chosen may hold anything: the fit is the same as without them."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

from dask_dpmeans import DPMeans, InputError, fit, load
from dask_dpmeans.cli import main

N = 60
ROWS = np.random.default_rng(0).integers(0, 40, (N, 2))
FRAME = pd.DataFrame(
    {
        "city": ["a", "b"] * (N // 2),
        "age": ROWS[:, 0],
        "id": [None, *range(1, N)],
        "income": ROWS[:, 1] / 4,
        "since": pd.to_datetime("2020-01-01"),
    }
)
CHOSEN = [3, 1]
MODEL = DPMeans(40.0)
FORMS = {
    "csv": lambda: FRAME.to_csv("t.csv", index=False) or "t.csv",
    "parquet": lambda: FRAME.to_parquet("t.parquet", row_group_size=9) or "t.parquet",
    "pandas": lambda: FRAME,
    "polars": lambda: pl.from_pandas(FRAME),
    "dask": lambda: dd.from_pandas(FRAME, npartitions=3),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder, the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_columns_by_number_make_the_others_irrelevant(form):
    plain = FRAME.iloc[:, CHOSEN].to_numpy()
    expected = MODEL.fit(plain)
    found = fit(FORMS[form](), "run.zarr", MODEL, columns=CHOSEN)
    assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.predict(FRAME), expected.labels_)
    lazy = found.predict(dd.from_pandas(FRAME, npartitions=4))
    np.testing.assert_array_equal(lazy, expected.labels_)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_command_takes_columns_by_number(form):
    table = FORMS[form]()
    expected = MODEL.fit(FRAME.iloc[:, CHOSEN].to_numpy()).labels_
    for words in (
        f"fit {table} run.zarr --penalty 40 --columns 3,1",
        f"predict run.zarr {table} out.parquet",
        "bound run.zarr",
        "report run.zarr page.html",
        f"penalty {table} -k 3 --columns 3,1",
        f"path {table} path.zarr --penalties 40,60 --columns 3,1",
    ):
        done = CliRunner().invoke(main, words.split())
        assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(load("run.zarr").labels_, expected)
    np.testing.assert_array_equal(pd.read_parquet("out.parquet").label, expected)


@pytest.mark.parametrize("form", FORMS)
def test_a_chosen_column_that_is_no_number_is_named(form):
    data = FORMS[form]()
    with pytest.raises(InputError, match=r"column 'city'"):
        fit(data, "run.zarr", MODEL, columns=[0, 1])
    with pytest.raises(InputError, match=r"some of the 5 columns 0 to 4, got \[5\]"):
        fit(data, "run.zarr", MODEL, columns=[5])
