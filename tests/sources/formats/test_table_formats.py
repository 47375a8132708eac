"""Arrow and CSV files, and columns of lists in files: the rows that pandas and Python read, in parts."""

import csv
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc
from pyarrow import parquet as pq

from dask_dpmeans import DPMeans, fit, predict
from dask_dpmeans.cli import main
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.formats import csv_files, table_files
from dask_dpmeans.sources.formats.table_rows import TableRows
from dask_dpmeans.sources.formats.tables import open_table
from dask_dpmeans.storage.location import Location

ENDINGS = ("parquet", "feather", "csv")


def write(table: pa.Table, path: Path, height: int = 1000) -> None:
    """Write a table in the format of a path, in groups of this height."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=height)
    elif path.suffix == ".csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as to:
            to.write_table(table, max_chunksize=height)


def opened(path: Path | str, columns: tuple[str, ...] | None = None, **options: Any) -> TableRows:
    return open_table(Location.at(path), columns, "data", 2, **options)


@pytest.fixture
def small_blocks() -> Iterator[None]:
    """Blocks of some lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK_BYTES", 64)
        yield


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(ENDINGS),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_any_rows_of_any_files_are_those_of_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    heights: list[int],
    group: int,
    random: Any,
    data: st.DataObject,
) -> None:
    n, where = sum(heights), tmp_path_factory.mktemp("parts")
    rows = np.array(
        [[random.uniform(-9, 9) * 10 ** random.randint(-30, 30) for _ in "ab"] for _ in range(n)]
    )
    table = pa.table({"a": rows[:, 0], "word": ['x, "y"\n'] * n, "b": rows[:, 1]})
    for number, (first, last) in enumerate(pairwise(np.cumsum([0, *heights]))):
        write(table.slice(first, last - first), where / f"part.{number}.{ending}", group)
    found = opened(where / f"*.{ending}", ("b", "a"))
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    expected = np.ascontiguousarray(rows[start:stop, ::-1])
    assert found.shape == (n, 2)
    assert found[start:stop].tobytes() == expected.tobytes()
    assert found.narrowed(start, stop)[start:stop].tobytes() == expected.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_of_a_file_has_the_bytes_of_its_array(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-9, 9, (4, 2))[rng.integers(4, size=500)] + rng.standard_normal((500, 2))
    weight, table = np.arange(500) % 4 / 2.0, tmp_path / f"t.{ending}"
    write(
        pa.table({"id": [f"r{i}" for i in range(500)], "a": X[:, 0], "b": X[:, 1], "w": weight}),
        table,
        90,
    )
    found = fit(f"{table}#a,b,w", tmp_path / "run", DPMeans(9.0), sample_weight="w")
    expected = DPMeans(9.0).fit(X, sample_weight=weight)
    assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert list(found.feature_names_in_) == ["a", "b"]
    out = tmp_path / "out.parquet"
    arguments = ["predict", str(tmp_path / "run"), str(table), str(out), "--keep", "id"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    labelled = pd.read_parquet(out)
    assert labelled.id.tolist() == [f"r{i}" for i in range(500)]
    np.testing.assert_array_equal(labelled.label, expected.labels_)


LINES = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=100, deadline=None)
@given(
    LINES, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8", "utf-8-sig"]), st.booleans()
)
def test_lines_are_those_of_python_whatever_the_texts_between(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[str, float]],
    end: str,
    encoding: str,
    last: bool,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with open(path, "w", encoding=encoding, newline="") as file:
        to = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC)
        to.writerows([('a, "text"', "number"), *lines])
    if not last:
        path.write_bytes(path.read_bytes().removesuffix(end.encode()))
    found = opened(path, ("number",))
    numbers = np.array([number for _, number in lines])
    assert found[0 : len(lines)].astype(np.float64).tobytes() == numbers[:, np.newaxis].tobytes()


def test_lines_are_read_in_blocks_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, n = tmp_path / "t.csv", 20_000
    pd.DataFrame({"a": np.arange(n) / 7, "b": np.arange(n)}).to_csv(path, index=False)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 10_000)
    found, parsed = opened(path), []
    whole = csv_files.CsvColumns.parse

    def counted(self: Any, content: bytes, names: Any) -> Any:
        parsed.append(len(content))
        return whole(self, content, names)

    monkeypatch.setattr(csv_files.CsvColumns, "parse", counted)
    assert max(part.stop - part.start for part in found.parts) < 10_100  # type: ignore[attr-defined]
    assert found[5000:5010][:, 1].tolist() == list(range(5000, 5010))
    assert sum(parsed) < 20_200
    with pytest.raises(InputError, match=r"data is stored in blocks of lines of .* rows, "):
        as_source(path, threads=1, memory_limit=30_000)


def test_types_follow_from_all_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 16)
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,d\n" + "1,2,true,\n" * 9 + "1,2.5,false,4\n")
    found = opened(path, missing=True)
    assert found[0:10][-1].tolist() == [1, 2.5, 0, 4]
    assert np.isnan(found[0:9][:, 3]).all()
    with pytest.raises(InputError, match=r"contains null at row 0, column 'd' of \S+t.csv"):
        opened(path)[0:10]
    assert opened(path, ("a",)).dtype == np.int64
    path.write_text("a\n" + "1\n" * 9 + "one\n")
    with pytest.raises(InputError, match=r"column 'a' of \S+t.csv holds 'one', which is no number"):
        opened(path)


def test_the_index_that_pandas_writes_is_no_column(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": [4.0, 5.0, 6.0]})
    rows.to_csv(tmp_path / "t.csv")
    rows.to_feather(tmp_path / "t.feather")
    for name in ("t.csv", "t.feather"):
        assert opened(tmp_path / name).names == ("a", "b")
        np.testing.assert_array_equal(opened(tmp_path / name)[0:3], rows.to_numpy())


def test_categories_of_lines_are_those_of_the_frame(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(200), "city": rng.choice(["x", "y", "z"], 200)})
    expected = DPMeans(3.0, divergence={"city": "categorical"}).fit(frame)
    for ending in ("csv", "feather"):
        write(pa.Table.from_pandas(frame), tmp_path / f"t.{ending}")
        model = DPMeans(3.0, divergence={"city": "categorical"})
        found = fit(tmp_path / f"t.{ending}", tmp_path / ending, model)
        np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("fixed", [True, False])
def test_lists_of_one_length_are_columns(tmp_path: Path, ending: str, fixed: bool) -> None:
    rng = np.random.default_rng(0)
    X = (9 * rng.integers(3, size=(300, 1)) + rng.standard_normal((300, 4))).astype(np.float32)
    kind = pa.list_(pa.float32(), 3) if fixed else pa.list_(pa.float32())
    table = pa.table({"age": X[:, 0], "id": ["r"] * 300, "emb": pa.array(X[:, 1:].tolist(), kind)})
    path = tmp_path / f"t.{ending}"
    write(table, path, 70)
    found = fit(f"{path}#emb,age", tmp_path / "run", DPMeans(30.0))
    assert list(found.feature_names_in_) == ["emb_0", "emb_1", "emb_2", "age"]
    expected = DPMeans(30.0).fit(np.column_stack([X[:, 1:], X[:, 0]]))
    assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    in_memory = DPMeans(30.0).fit(pl.from_arrow(table).select("emb", "age"))  # type: ignore[union-attr]
    assert list(in_memory.feature_names_in_) == list(found.feature_names_in_)
    predict(tmp_path / "run", path, tmp_path / "out.parquet", keep=["id"])
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet").label, expected.labels_)


@pytest.mark.parametrize("fixed", [True, False])
def test_nulls_in_lists_and_instead_of_lists(tmp_path: Path, fixed: bool) -> None:
    kind = pa.list_(pa.int32(), 2) if fixed else pa.list_(pa.int32())
    for name, rows, bad in (
        ("one", [[1, 2], None, [3, 4]], 1),
        ("two", [[1, 2], [3, 4], [5, None]], 2),
    ):
        write(pa.table({"emb": pa.array(rows, kind)}), tmp_path / f"{name}.parquet", 2)
        found = opened(tmp_path / f"{name}.parquet", missing=True)[1:3]
        expected = np.array([row or [None, None] for row in rows], float)[1:3]
        np.testing.assert_array_equal(found, expected)
        with pytest.raises(InputError, match=f"null at row {bad}, column 'emb' of"):
            opened(tmp_path / f"{name}.parquet")[0:3]


def test_lists_of_other_lengths_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"emb": [[1.0, 2.0], [3.0, 4.0], [5.0]]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="holds lists of 2 numbers, and at row 2 of 1"):
        opened(tmp_path / "t.parquet")[1:3]
    with pytest.raises(InputError, match="sample_weight must be one column, got emb"):
        as_source(np.ones((3, 1)), f"{tmp_path}/t.parquet#emb")


def test_decimals_are_numbers(tmp_path: Path) -> None:
    table = pa.table({"a": [Decimal("1.25"), Decimal("-3.50")], "b": [1, 2]})
    for ending in ("parquet", "feather"):
        write(table, tmp_path / f"t.{ending}")
        assert opened(tmp_path / f"t.{ending}")[0:2].tolist() == [[1.25, 1.0], [-3.5, 2.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1.5,2.5\n3,4\n", r"first line of \S+ must hold the names .* header=None"),
        ("a;b\n3;4\n", r"with commas between, got 'a;b': .* sep=';'\)"),
        ("", "the first line of .* and it is empty"),
        ("a,b\n1,2\n3\n", "cannot be read as a CSV file: .*Expected 2 columns, got 1"),
        ('a,b\n1,5" pipe\n2,6" pipe\n', "has a quote inside a value, '.*5\" pipe"),
        ("a,a\n1,2\n", r"more than one column of \S+t.csv is called 'a': rename these"),
        ("5,3\n1,2\n", r"names of the columns, and it holds numbers: .* header=None"),
        ("3,10\n7,2\n", r"names of the columns, and it holds numbers: .* header=None"),
        ("2,3\n7,2\n", r"names of the columns, and it holds numbers: .* header=None"),
        ("0,17,35\n1,20,3\n", r"names of the columns, and it holds numbers: .* header=None"),
        ("5\n3\n4\n", r"names of the columns, and it holds numbers: .* header=None"),
        ("a,b\n1,x\n", "name those to use, as .*t.csv#a' does|.*t.csv#a does"),
        ("a,b\n", r"Found array with 0 sample\(s\)"),
    ],
)
def test_lines_that_cannot_be_used_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        as_source(path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, ending: str
) -> None:
    write(pa.table({"a": [1.0], "b": [2.0], "c": [3.0]}), tmp_path / f"t.{ending}")
    message = rf"t\.{ending} has no column 'x', 'y': its columns are a, b, c$"
    with pytest.raises(InputError, match=message):
        as_source(f"{tmp_path}/t.{ending}#x,a,y")


def test_a_line_of_another_encoding_is_converted_as_the_error_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes("städte,b\n1,2\n3,4\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"first line of .* is not UTF-8 text") as refused:
        as_source("t.csv")
    way = str(refused.value).partition("convert it, as ")[2].removesuffix(" does")
    eval(way, {"pandas": pd})
    assert opened("table.parquet")[0:2].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("names", ["2001,2002", "0,1"])
def test_years_and_numbers_of_columns_are_names(tmp_path: Path, names: str) -> None:
    (tmp_path / "t.csv").write_text(f"{names}\n5,3\n4,4\n")
    assert opened(tmp_path / "t.csv")[0:2].tolist() == [[5, 3], [4, 4]]


def test_parquet_files_in_folders_of_a_folder_are_a_pattern(tmp_path: Path) -> None:
    part = tmp_path / "rows" / "year=2001"
    part.mkdir(parents=True)
    write(pa.table({"a": [1.0, 2.0]}), part / "0.parquet")
    with pytest.raises(InputError, match=r"give the pattern \S+/rows/\*/\*\.parquet; names of"):
        as_source(tmp_path / "rows")
    assert opened(tmp_path / "rows/*/*.parquet")[0:2].tolist() == [[1.0], [2.0]]


def test_a_quote_that_is_not_closed_ends_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 1000)
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x\n' + "2,y\n" * 1000)
    with pytest.raises(InputError, match="has a line of more than 1,000 bytes: a quote may not be"):
        opened(path)


def test_files_that_changed_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n2\n")
    found = opened(path)
    path.write_text("a\n1234\n")
    with pytest.raises(CorruptStoreError, match=r"t.csv has 1 rows, it had 2: it has changed"):
        found[0:2]
    path = tmp_path / "t.arrow"
    write(pa.table({"a": [1.0, 2.0]}), path)
    found = opened(path)
    write(pa.table({"a": [1.0]}), path)
    with pytest.raises(CorruptStoreError, match=r"t.arrow has 1 rows, it had 2: it has changed"):
        found[0:2]


def test_what_is_no_arrow_file_of_this_version_is_named(tmp_path: Path) -> None:
    with ipc.new_stream(tmp_path / "stream.arrow", pa.schema({"a": pa.float64()})):
        pass
    (tmp_path / "bad.feather").write_bytes(b"ARROW1 and nothing")
    for name in ("stream.arrow", "bad.feather"):
        with pytest.raises(InputError, match=f"{name} cannot be read as an Arrow file"):
            opened(tmp_path / name)


@pytest.mark.parametrize("ending", ["arrow", "csv"])
def test_without_pyarrow_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(table_files, "AVAILABLE", False)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'dask-dpmeans\[parquet\]'"):
        as_source(tmp_path / f"t.{ending}")


def test_files_of_polars_are_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"a": [1.5, 2.5], "emb": [[1.0, 2.0], [3.0, 4.0]]},
        schema={"a": pl.Float64, "emb": pl.Array(pl.Float64, 2)},
    )
    frame.write_ipc(tmp_path / "t.arrow")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.drop("emb").write_csv(tmp_path / "t.csv")
    for name in ("t.arrow", "t.parquet"):
        assert opened(tmp_path / name)[0:2].tolist() == [[1.5, 1, 2], [2.5, 3, 4]]
    assert opened(tmp_path / "t.csv")[0:2].tolist() == [[1.5], [2.5]]
