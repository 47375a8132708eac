"""Parquet tables: the rows that Dask and pandas read, in their order, a task reading the row groups of its shard."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from dask_dpmeans import DPMeans, HDPMeans, fit, load, predict
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli import main
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.report import origin
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.formats import table_files
from dask_dpmeans.sources.formats.tables import open_table
from dask_dpmeans.storage.location import Location


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-9, 9, (4, 3))[rng.integers(4, size=n)] + rng.standard_normal((n, 3))
    columns = dict(zip(("age", "income", "size"), rows.T, strict=True))
    return pd.DataFrame(
        {"shop": np.arange(n) % 3, **columns, "weight": np.arange(n) % 4 / 2.0, "city": ["x"] * n}
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    return table(1000)


@pytest.fixture
def folder(frame: pd.DataFrame, tmp_path: Path) -> Path:
    """Twelve files, so that part.10 comes after part.9, of row groups of several heights."""
    (tmp_path / "table.parquet").mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 12)):
        frame.iloc[part].to_parquet(
            tmp_path / f"table.parquet/part.{number}.parquet", row_group_size=30
        )
    return tmp_path / "table.parquet"


def test_rows_come_in_the_order_that_dask_has_them(folder: Path, frame: pd.DataFrame) -> None:
    ages = dd.read_parquet(folder).age.compute().to_numpy()
    np.testing.assert_array_equal(
        open_table(Location.at(folder), ("age",), "data", 1)[0:1000], ages
    )
    np.testing.assert_array_equal(ages, frame.age)


def test_the_index_of_a_pandas_table_is_no_column(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [7, 9, 8], "a": [1.0, 2.0, 5.0], "b": [3.0, 4.0, 5.0]})
    for name, frame in (
        ("named", rows.set_index("id")),
        ("nameless", rows[["a", "b"]].loc[[2, 0, 1]]),
    ):
        path = tmp_path / f"{name}.parquet"
        frame.to_parquet(path)
        assert list(pd.read_parquet(path).columns) == ["a", "b"]
        assert open_table(Location.at(path), None, "data", 2).names == ("a", "b")
    assert open_table(Location.at(tmp_path / "named.parquet"), ("id",), "data", 1)[
        0:3
    ].tolist() == [7, 9, 8]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 4), st.data())
def test_any_rows_of_any_files_and_row_groups_are_those_of_the_table(
    tmp_path_factory: pytest.TempPathFactory, heights: list[int], group: int, data: st.DataObject
) -> None:
    rows, where = table(sum(heights) + 1), tmp_path_factory.mktemp("parts")
    bounds = np.cumsum([0, *heights[:-1], heights[-1] + 1])
    for number, (first, last) in enumerate(pairwise(bounds)):
        pq.write_table(
            pa.Table.from_pandas(rows[first:last]),
            where / f"part.{number}.parquet",
            row_group_size=group,
        )
    opened = open_table(Location.at(where), ("size", "age"), "data", 2)
    expected = rows[["size", "age"]].to_numpy()
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    np.testing.assert_array_equal(opened[start:stop], expected[start:stop])
    if start < stop:
        np.testing.assert_array_equal(
            opened.narrowed(start, stop)[start:stop], expected[start:stop]
        )


@pytest.mark.parametrize("form", ["file", "folder", "folder of any name"])
def test_a_run_of_a_table_has_the_bytes_of_its_array(
    folder: Path, frame: pd.DataFrame, tmp_path: Path, form: str
) -> None:
    given_rows = {
        "file": tmp_path / "one.parquet",
        "folder": folder,
        "folder of any name": tmp_path / "rows",
    }[form]
    if form == "file":
        frame.to_parquet(given_rows, row_group_size=77)
    elif form != "folder":
        folder.rename(given_rows)
    found = fit(
        f"{given_rows}#income,age",
        tmp_path / "run",
        DPMeans(9.0),
        sample_weight=f"{given_rows}#weight",
    )
    expected = DPMeans(9.0).fit(
        frame[["income", "age"]].to_numpy(), sample_weight=frame.weight.to_numpy()
    )
    assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)


def test_rows_that_do_not_fit_in_memory_are_read_by_their_row_groups_in_each_pass(
    frame: pd.DataFrame, folder: Path
) -> None:
    source = as_source(f"{folder}#age,income", block_rows=64, threads=2, memory_limit=30_000)
    assert not source.resident
    assert max(len(shard.data.parts) for shard in source.shards) < 12
    read = [
        block.rows.copy()
        for shard, blocks in source.plan.pieces(range(source.plan.n_blocks))
        for block in source.shards[shard].blocks(source.prepare, 64, blocks)
    ]
    np.testing.assert_array_equal(np.concatenate(read), frame[["age", "income"]].to_numpy())


def test_only_the_row_groups_of_a_shard_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = pq.ParquetFile.read_row_group

    def counted(file: Any, number: int, **options: Any) -> Any:
        assert options["columns"] == ["age"]
        read.append(file.metadata.row_group(number).num_rows)
        return whole(file, number, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    opened = open_table(Location.at(folder), ("age",), "data", 2)
    assert opened[200:290].shape == (90, 1)
    assert sum(read) < 90 + 2 * 30


def test_the_command_line_fits_and_predicts_columns_by_name(
    folder: Path, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> None:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output

    call("fit", "table.parquet#age,income", "run.zarr", "--penalty", "9", "--seed", "0")
    frame[["city", "income", "age"]].to_parquet("others.parquet")  # in another order
    call("predict", "run.zarr", "others.parquet#age,income", "labels.zarr")
    assert origin.locate(open_run("run.zarr").result.manifest) == f"{folder}#age,income"
    model = load("run.zarr")
    np.testing.assert_array_equal(model.predict(frame[["age", "income"]]), model.labels_.compute())
    call(
        "hdp",
        "table.parquet#age,size",
        "shared",
        "--groups",
        "table.parquet#shop",
        "--local-penalty",
        "9",
        "--global-penalty",
        "40",
    )
    expected = HDPMeans(9.0, 40.0).fit(
        frame[["age", "size"]].to_numpy(), groups=frame.shop.to_numpy()
    )
    np.testing.assert_array_equal(load("shared").labels_.compute(), expected.labels_)
    result = CliRunner().invoke(
        main, ["fit", "table.parquet", "x.zarr", "--penalty", "9", "--columns", "age,income"]
    )
    assert result.exit_code == 0, result.output
    assert origin.locate(open_run("x.zarr").result.manifest) == f"{folder}#age,income"


def test_predictions_of_a_table_are_those_of_its_array(
    folder: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    fit(f"{folder}#age,income", tmp_path / "run", DPMeans(9.0), scale="std")
    predict(tmp_path / "run", f"{folder}#age,income", tmp_path / "one")
    with pytest.warns(match="X does not have valid feature names"):
        predict(tmp_path / "run", frame[["age", "income"]].to_numpy(), tmp_path / "two")
    one, two = (tmp_path / name / "squared_distance/c/0" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("#income,age", "Feature names must be in the same order as they were in fit"),
        ("#age,size", "(?s)unseen at fit time:\n- size\n.*now missing:\n- income"),
        ("#age", "seen at fit time, yet now missing:\n- income"),
    ],
)
def test_a_run_predicts_for_the_columns_that_it_was_fitted_on_alone(
    folder: Path, tmp_path: Path, columns: str, message: str
) -> None:
    fit(f"{folder}#age,income", tmp_path / "run", DPMeans(9.0))
    with pytest.raises(InputError, match=message):
        predict(tmp_path / "run", f"{folder}{columns}", tmp_path / "labels")
    assert not (tmp_path / "labels").exists()


def test_columns_that_are_not_named_in_a_path_go_by_name_too(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    one, other, run = tmp_path / "one.parquet", tmp_path / "other.parquet", tmp_path / "run"
    frame[["age", "income"]].to_parquet(one)
    more = frame[["income", "age"]].assign(weight=1.0)
    more.to_parquet(other)
    labels = fit(one, run, DPMeans(9.0, random_state=0)).labels_
    with pytest.raises(InputError, match="now missing:\n- income"):
        predict(run, frame[["age"]], tmp_path / "labels")
    for number, same in enumerate((one, frame[["age", "income"]], other, more)):
        predict(run, same, tmp_path / f"labels{number}")
        np.testing.assert_array_equal(
            zarr.open_array(tmp_path / f"labels{number}" / "label")[:], labels
        )
    with pytest.warns(match="X does not have valid feature names"):  # but they are the same rows
        fit(frame[["age", "income"]].to_numpy(), run, DPMeans(9.0, random_state=0), resume=True)


def test_integers_and_booleans_stay_exact(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.array([1, 2**53], np.int64), "b": [0.5, 1.5]}).to_parquet(
        tmp_path / "t.parquet"
    )
    assert open_table(Location.at(tmp_path / "t.parquet"), ("a",), "data", 2).dtype == np.int64
    assert open_table(Location.at(tmp_path / "t.parquet"), None, "data", 2)[0:2].tolist() == [
        [1.0, 0.5],
        [2.0**53, 1.5],
    ]
    pd.DataFrame({"a": np.array([1, 2**53 + 2], np.int64), "b": [0.5, 1.5]}).to_parquet(
        tmp_path / "t.parquet"
    )
    with pytest.raises(
        InputError, match=r"holds the integer 9007199254740994 at row 1, column 'a' of \S+t.parquet"
    ):
        open_table(Location.at(tmp_path / "t.parquet"), None, "data", 2)[0:2]


def refusals(folder: Path) -> dict[str, tuple[str, str]]:
    other = folder.parent / "other.parquet"
    other.mkdir()
    pq.write_table(pa.table({"a": [1.0, 2.0, None]}), other / "1.parquet", row_group_size=2)
    pq.write_table(pa.table({"a": [1]}), other / "2.parquet")
    (folder.parent / "wider.parquet").mkdir()
    pq.write_table(pa.table({"a": [1.0]}), folder.parent / "wider.parquet/1.parquet")
    pq.write_table(pa.table({"a": [1.0], "b": [1.0]}), folder.parent / "wider.parquet/2.parquet")
    (folder.parent / "empty.parquet").mkdir()
    (folder.parent / "broken.parquet").write_bytes(b"PAR1 and nothing")
    return {
        f"{folder}#age,none": ("table.parquet has no column 'none': its columns are", ""),
        f"{folder}": ("column 'city' of", "no numbers: name those to use, as"),
        f"{folder}#city": ("column 'city' of", "large_string|string"),
        f"{other}#a": (
            "2.parquet has other columns than a of",
            r"or other types: column 'a' is int64, not double; write these files alike$",
        ),
        f"{folder.parent}/wider.parquet": (
            "2.parquet has other columns than a of",
            "or other types: column 'b' is new; write these files alike, or name those to use, as",
        ),
        "s3://bucket/t.parquet": (
            "there is no Parquet table at s3://bucket/t.parquet",
            "unexpected keyword argument",
        ),
        f"{other}/1.parquet": (
            "contains null at row 2, column 'a' of",
            "remove or replace such rows first",
        ),
        f"{folder.parent}/empty.parquet": ("holds no Parquet files", ""),
        f"{folder.parent}/none.parquet": ("there is no Parquet table at", ""),
        f"{folder.parent}/broken.parquet": ("cannot be read as a Parquet file", ""),
    }


def made_without(folder: Path) -> Path:
    narrower = folder.parent / "narrower.parquet"
    narrower.mkdir()
    pq.write_table(pa.table({"a": [1.0], "b": [1.0]}), narrower / "1.parquet")
    pq.write_table(pa.table({"a": [1.0]}), narrower / "2.parquet")
    return narrower


def test_a_file_without_the_index_of_the_others_is_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([3, 4], name="id"))
    frame.to_parquet(tmp_path / "1.parquet")
    frame.reset_index(drop=True).to_parquet(tmp_path / "2.parquet", index=False)
    with pytest.raises(InputError, match=r"2\.parquet has .*: column 'id' is missing;"):
        as_source(tmp_path)


def test_groups_of_text_say_how_to_number_them(folder: Path) -> None:
    with pytest.raises(InputError, match="groups: column 'city' of") as caught:
        fit(f"{folder}#age", folder.parent / "run.zarr", HDPMeans(9.0, 9.0), groups="city")
    assert "categories" not in str(caught.value)
    way = str(caught.value).partition("number the groups, as ")[2].partition(" does")[0]
    numbers = eval(way, {"pandas": pd, "table": pd.read_parquet(folder)})
    found = fit(f"{folder}#age", folder.parent / "run.zarr", HDPMeans(9.0, 9.0), groups=numbers)
    assert found.n_clusters_ >= 1


def test_what_cannot_be_used_is_named(folder: Path) -> None:
    for path, (first, second) in refusals(folder).items():
        with pytest.raises(InputError, match=f"(?s){first}.*({second})"):
            as_source(path, storage_options={"nonsense": 1})
    with pytest.raises(InputError, match=r"2\.parquet has .*: column 'b' is missing;"):
        as_source(f"{made_without(folder)}#a,b")
    with pytest.raises(
        InputError, match=r"sample_weight must be one column, got age, weight: .*parquet#age' does"
    ):
        as_source(f"{folder}#age", f"{folder}#age,weight")


def test_row_groups_that_no_thread_can_hold_are_refused_unread(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame[["age", "size"]].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        InputError,
        match="data is stored in row groups of 1,000 rows, 16,000 bytes across its columns",
    ):
        as_source(tmp_path / "t.parquet", threads=1, memory_limit=50_000)


def test_nan_is_named_as_in_any_input(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, np.nan]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"data contains NaN \(nan\) at row 1"):
        as_source(tmp_path / "t.parquet")


def test_a_file_that_has_changed_or_is_damaged_is_an_error(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "t.parquet")
    opened = open_table(Location.at(tmp_path / "t.parquet"), ("age",), "data", 2)
    frame[:999].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(CorruptStoreError, match="has 999 rows, it had 1,000: it has changed"):
        opened[0:10]
    pq.write_table(
        pa.table({"a": np.arange(99.0)}), tmp_path / "c.parquet", write_page_checksum=True
    )
    opened = open_table(Location.at(tmp_path / "c.parquet"), ("a",), "data", 2)
    content = bytearray((tmp_path / "c.parquet").read_bytes())
    content[200] ^= 1
    (tmp_path / "c.parquet").write_bytes(content)
    with pytest.raises(OSError, match="checksum"):
        opened[0:99]


def test_without_pyarrow_the_way_out_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "AVAILABLE", False)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'dask-dpmeans\[parquet\]'"):
        as_source(folder)
