"""Predictions as a Parquet file: the labels of the Zarr answer, beside the columns that are kept."""

import os
import subprocess
import sys
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, InputError, fit, predict
from dask_dpmeans.cli import main
from dask_dpmeans.sources import named_columns

RNG = np.random.default_rng(0)
N = 230
FRAME = pd.DataFrame(
    {
        "id": RNG.permutation(N),
        "age": RNG.normal(size=N) + np.arange(N) % 3 * 9,
        "name": [None if n % 7 == 0 else f"n{n}" for n in range(N)],
        "kind": pd.Categorical(["a", "b"] * (N // 2)),
        "income": RNG.normal(size=N),
        "spare": RNG.normal(size=N),
    }
)
NAMES = ["age", "income"]
KEEP = ["name", "id", "kind"]
ANSWERS = ["label", "squared_distance", "beyond"]
FORMS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and its predictions of all rows as a Zarr group."""
    folder = tmp_path_factory.mktemp("labelled")
    fit(FRAME[NAMES], folder / "run", DPMeans(9.0))
    predict(folder / "run", FRAME[NAMES], folder / "zarr")
    return folder


def answers(folder: Path) -> pd.DataFrame:
    return pd.DataFrame({name: zarr.open_array(folder / "zarr" / name)[:] for name in ANSWERS})


def check(table: pa.Table, folder: Path, keep: list[str] = KEEP) -> None:
    """Each row has the answer of its id, and its kept values, in the order of the rows."""
    assert table.column_names == [*keep, *ANSWERS]
    expected = pd.concat([FRAME, answers(folder)], axis=1)
    for name in table.column_names:
        wanted = expected[name].astype(object).where(expected[name].notna(), None).tolist()
        assert table[name].to_pylist() == wanted, name


@pytest.mark.parametrize("form", FORMS)
def test_a_data_frame_keeps_columns_beside_its_labels(form: str, folder: Path) -> None:
    out = folder / f"{form}.parquet"
    found = predict(folder / "run", FORMS[form](FRAME), out, keep=KEEP)
    check(pq.read_table(out), folder)
    assert found.n_rows == N
    assert found.beyond == answers(folder).beyond.sum()


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.integers(0, N), max_size=4), group=st.integers(1, 90), part=st.integers(1, 300)
)
def test_files_row_groups_and_parts_of_any_size_give_the_rows_in_order(
    cuts: list[int],
    group: int,
    part: int,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path_factory.mktemp("files")
    for number, rows in enumerate(np.split(np.arange(N), sorted(cuts))):
        FRAME.iloc[rows].to_parquet(here / f"part.{number}.parquet", row_group_size=group)
    monkeypatch.setattr(named_columns, "PART_ROWS", part)
    predict(folder / "run", here / "part.*.parquet", here / "out.pq", keep=KEEP)
    check(pq.read_table(here / "out.pq"), folder)


def test_the_command_writes_a_table_and_says_what_is_wrong(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_parquet("rows.parquet", row_group_size=50)
    np.save("rows.npy", FRAME[NAMES].to_numpy())
    run = str(folder / "run")
    runner, table = CliRunner(), "rows.parquet"
    done = runner.invoke(main, ["predict", run, table, "out.parquet", "--keep", "id,name"])
    assert done.exit_code == 0, done.output
    check(pq.read_table("out.parquet"), folder, ["id", "name"])
    for words, told in (
        ([table, "out.parquet"], "out.parquet holds a table of predictions: --force writes over"),
        ([table, "rows.parquet", "--force"], "is not a table of predictions of this package"),
        ([table, "new.parquet", "--keep", "ids"], "no column 'ids' in data, which has 'id', 'age'"),
        ([table, "new.parquet", "--keep", "id,id"], "keep names 'id' more than once"),
        ([table, "new.parquet", "--keep", "label"], "a column 'label' of their own: rename yours"),
        (["rows.npy", "new.parquet", "--keep", "id"], "data is no table with columns: leave keep"),
        ([table, "new.parquet", "--soft", "2"], "soft is for a Zarr group, and"),
        ([table, "new.zarr", "--keep", "id"], "new.zarr end with .parquet"),
        ([table, "s3://bucket/new.parquet"], "is written to a file of this machine, give its path"),
        (["*.parquet", "new.parquet"], "lie one within the other"),
    ):
        failed = runner.invoke(main, ["predict", run, *words])
        assert failed.exit_code == 2, failed.output
        assert told in " ".join(failed.output.split())
    with pytest.warns(match="X does not have valid feature names"):
        predict(run, "rows.npy", "out.parquet", force=True)
    check(pq.read_table("out.parquet"), folder, [])
    assert sorted(os.listdir()) == ["out.parquet", "rows.npy", "rows.parquet"]


@pytest.mark.parametrize("text", ['id, " the name"', '" the name",id'])
def test_names_with_spaces_around_are_in_quotes(folder: Path, tmp_path: Path, text: str) -> None:
    FRAME.rename(columns={"name": " the name"}).to_parquet(tmp_path / "rows.parquet")
    words = [folder / "run", tmp_path / "rows.parquet", tmp_path / "out.parquet", "--keep", text]
    done = CliRunner().invoke(main, ["predict", *map(str, words)])
    assert done.exit_code == 0, done.output
    kept = pq.read_table(tmp_path / "out.parquet").column_names[:2]
    assert sorted(kept) == [" the name", "id"]


def test_no_columns_may_be_kept(folder: Path, tmp_path: Path) -> None:
    predict(folder / "run", FRAME, tmp_path / "out.parquet", keep=[])
    check(pq.read_table(tmp_path / "out.parquet"), folder, [])


def test_columns_that_are_kept_are_no_features_of_a_run_without_names(tmp_path: Path) -> None:
    fit(FRAME[NAMES].to_numpy(), tmp_path / "run", DPMeans(9.0))
    predict(tmp_path / "run", FRAME[NAMES].to_numpy(), tmp_path / "zarr")
    with pytest.warns(match="X has feature names"):
        predict(tmp_path / "run", FRAME[["id", *NAMES]], tmp_path / "o.parquet", keep=["id"])
    check(pq.read_table(tmp_path / "o.parquet"), tmp_path, ["id"])


def test_an_error_leaves_nothing_and_a_killed_job_no_table(folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(["id", "name"]):
        part = FRAME.assign(id=FRAME[name])
        part.to_parquet(tmp_path / f"rows.{number}.parquet", row_group_size=100)
    files = tmp_path / "rows.*.parquet"
    with pytest.raises(InputError, match="keep: a part of data has other columns or types"):
        predict(folder / "run", files, tmp_path / "out.parquet", keep=["id"])
    assert {path.name for path in tmp_path.iterdir()} == {"rows.0.parquet", "rows.1.parquet"}
    killed = (
        "import os, sys; from dask_dpmeans import predict; from pyarrow import parquet\n"
        "class Killed(parquet.ParquetWriter):\n"
        "    def write_table(self, *given, **more):\n"
        "        super().write_table(*given, **more); os._exit(9)\n"
        "parquet.ParquetWriter = Killed\n"
        "predict(*sys.argv[1:], keep=['id'])\n"
    )
    words = [folder / "run", tmp_path / "rows.0.parquet", tmp_path / "out.parquet"]
    assert subprocess.run([sys.executable, "-c", killed, *map(str, words)]).returncode == 9
    left = {path.name for path in tmp_path.iterdir()} - {"rows.0.parquet", "rows.1.parquet"}
    assert len(left) == 1
    assert left.pop().startswith("out.parquet.")
    predict(*words, keep=["id"])
    check(pq.read_table(words[-1]), folder, ["id"])
