"""Data frames of every library: the bytes of their numbers as NumPy rows, whatever their types are."""

from decimal import Decimal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import contents

from dask_dpmeans import DPMeans, HDPMeans, InputError
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.sources import as_source, frame_of

TYPES = {
    "float64": pa.float64(),
    "float32": pa.float32(),
    "int64": pa.int64(),
    "int8": pa.int8(),
    "bool": pa.bool_(),
    "decimal": pa.decimal128(12, 2),
}
FORMS = {
    "arrow": lambda table: table,
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, nullable": lambda table: table.to_pandas().convert_dtypes(),
    "dask": lambda table: dd.from_pandas(
        table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=2
    ),
}


@st.composite
def tables(draw):
    """An Arrow table of numbers of several types with nulls, an embedding, and its NumPy rows."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    n, rng = draw(st.integers(2, 20)), np.random.default_rng(draw(st.integers(0, 99)))
    columns, rows = {}, []
    for number, kind in enumerate(kinds):
        values = rng.integers(0, 2 if kind == "bool" else 99, n)
        holes = rng.random(n) < draw(st.sampled_from([0.0, 0.3]))
        holes[0] = False
        given_values = [Decimal(int(each)) if kind == "decimal" else each for each in values]
        given_values = [bool(each) for each in values] if kind == "bool" else given_values
        columns[f"c{number}"] = pa.array(given_values, TYPES[kind], mask=holes)
        rows.append(np.where(holes, np.nan, values))
    width = draw(st.sampled_from([0, 1, 3]))
    if width:
        embedding = rng.integers(0, 9, (n, width)).astype(np.float32)
        fixed = draw(st.booleans())
        kind = pa.list_(pa.float32(), width) if fixed else pa.list_(pa.float32())
        columns["emb"] = pa.array(embedding.tolist(), kind)
        rows += list(embedding.T)
    names = [*(f"c{number}" for number in range(len(kinds))), *(f"emb_{i}" for i in range(width))]
    return pa.table(columns), np.column_stack(rows), names


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None)
@given(drawn=tables())
def test_every_frame_gives_the_bytes_of_its_numpy_rows(form, drawn):
    table, rows, names = drawn
    frame = FORMS[form](table)
    options = {"missing": True, "threads": 1, "block_rows": 16}
    found = as_source(frame, **options)
    assert list(found.layout.column_names) == names
    expected = as_source(rows, **options)
    assert contents(found.summary) == contents(expected.summary)
    first = DPMeans(9.0, missing="observed", search=True, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "KICKS", 8)  # what is compared is the same however good they are
        model = first.fit(frame)
        labels = np.asarray(model.labels_)
        centers = model.cluster_centers_.tobytes()
        again = first.fit(rows)
    assert (centers, labels.tolist()) == (again.cluster_centers_.tobytes(), again.labels_.tolist())


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [1.0, 2.0],
            "town": ["Ulm", "Rome"],
            "since": pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "size": pd.Categorical(["s", "m"]),
        }
    )


MIXED = {
    "pandas": mixed,
    "polars": lambda: pl.from_pandas(mixed()),
    "arrow": lambda: pa.Table.from_pandas(mixed()),
    "dask": lambda: dd.from_pandas(mixed(), npartitions=2),
}


@pytest.mark.parametrize("form", MIXED)
def test_one_error_names_all_columns_that_are_no_numbers_and_the_ways_out(form):
    told = (
        r"columns 'town' \(String\), 'since' \(Datetime\), 'size' \(Categorical\) cannot be read "
        r".*columns of numbers, as X.*\['age'\].* does; .*turn dates into days .*; count them as "
        r"categories, with DPMeans or HDPMeans\(divergence={'town': 'categorical', 'size': "
        r"'categorical'}\), or encode categories as numbers"
    )
    with pytest.raises(InputError, match=told):
        DPMeans(1.0).fit(MIXED[form]())


def test_columns_without_a_value_and_structs_are_named_with_the_ways_out():
    frame = pd.DataFrame({"age": [1.0, 2.0], "note": [None, None], "at": [{"x": 1}, {"x": 2}]})
    told = (
        r"'note' \(no value\), 'at' \(Object\) cannot .*; make a column of each field of a struct"
    )
    with pytest.raises(InputError, match=told):
        DPMeans(1.0).fit(frame)


def test_a_table_of_times_alone_is_told_to_turn_them_into_numbers():
    frame = pd.DataFrame({"at": pd.to_datetime(["2020-01-01"]), "took": pd.to_timedelta([1], "D")})
    told = (
        r"'took' \(Duration\) cannot be read as numbers: turn dates into days since a date; turn "
        r"durations into numbers, such as days$"
    )
    with pytest.raises(InputError, match=told):
        DPMeans(1.0).fit(frame)


def test_lists_of_several_lengths_are_named_by_their_row():
    frame = pd.DataFrame({"emb": [[1.0, 2.0], [3.0]]})
    with pytest.raises(InputError, match=r"column 'emb' holds lists of 2 numbers, and at row 1 of"):
        DPMeans(1.0).fit(frame)
    with pytest.raises(InputError, match=r"column 'emb' holds lists of others than numbers"):
        DPMeans(1.0).fit(pd.DataFrame({"emb": [["a"], ["b"]]}))


def test_lists_that_are_null_are_missing_values():
    frame = pd.DataFrame({"emb": [[1.0, 2.0], None]})
    np.testing.assert_array_equal(frame_of(frame, "X").read("X")[0], [[1, 2], [np.nan, np.nan]])


IDS = [7, 2**53 + 1, -5]


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"id": [*IDS, None], "a": [0.5, 1.0, 2.0, 3.0]}),
        pl.DataFrame({"id": IDS, "a": [0.5, 1.0, 2.0]}),
        pl.DataFrame({"a": [1, 2, 3], "id": IDS}),
        pd.DataFrame({"id": IDS, "a": [0.5, 1.0, 2.0]}),
        pd.DataFrame({"id": pd.array(IDS, "Int64"), "a": [0.5, 1.0, 2.0]}),
        pd.DataFrame({"id": np.array(IDS, object), "a": [0.5, 1.0, 2.0]}),
    ],
)
@pytest.mark.parametrize("missing", ["error", "observed"])
def test_integers_of_a_column_that_float64_does_not_represent_are_named(frame, missing):
    message = r"X holds the integer 9007199254740993 at row 1, column 'id': beyond 2\*\*53"
    with pytest.raises(InputError, match=message):
        DPMeans(1.0, missing=missing).fit(frame)
    DPMeans(1.0, missing=missing).fit(frame[["a"]])


def test_integers_of_a_partition_that_float64_does_not_represent_are_named():
    whole = pd.DataFrame({"id": [1, 2, 3, 2**60 + 1], "a": [0.5, 1.0, 2.0, 3.0]})
    message = "holds the integer 1152921504606846977 at row 1, column 'id' of a partition"
    with pytest.raises(InputError, match=message):
        DPMeans(1.0).fit(dd.from_pandas(whole, npartitions=2))


@pytest.mark.parametrize("missing", ["error", "observed"])
def test_integers_among_objects_that_float64_does_not_represent_are_named(missing):
    message = "X holds the integer 9007199254740993 at row 1, column 0: beyond"
    with pytest.raises(InputError, match=message):
        DPMeans(1.0, missing=missing).fit(np.array([[each, 0.5] for each in IDS], object))
    with pytest.raises(InputError, match=message.replace("X", "data")):
        as_source(np.array([[each, 0.5] for each in IDS], object), missing=missing == "observed")
    DPMeans(1.0, missing=missing).fit(np.array([[2**53 - 1, 2.0**80], [1 - 2**53, 1]], object))


NULLABLE = ["Int64", "Float64", "int64[pyarrow]", "double[pyarrow]"]
"""Types of columns of pandas and Dask that may have nulls."""


@pytest.mark.parametrize("kind", NULLABLE)
@pytest.mark.parametrize("lazy", [False, True])
def test_nullable_weights_are_those_of_numpy_and_a_missing_one_is_named(kind, lazy):
    X, w = np.arange(9.0)[:, np.newaxis], np.arange(9) % 3 + 1
    expected = DPMeans(6.0).fit(X, sample_weight=w)
    frame = pd.DataFrame({"x": X[:, 0], "w": pd.array(w, "Int64")}).astype({"w": kind})
    holes = frame.copy()
    holes.loc[7, "w"] = pd.NA
    if lazy:
        frame, holes = (dd.from_pandas(each, npartitions=2) for each in (frame, holes))
    for given_weight in ("w", frame["w"]):
        rows = frame if isinstance(given_weight, str) else frame[["x"]]
        model = DPMeans(6.0).fit(rows, sample_weight=given_weight)
        assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
        assert model.cluster_weights_.tolist() == expected.cluster_weights_.tolist()
    with pytest.raises(InputError, match=r"sample_weight is nan at row 7\b"):
        DPMeans(6.0).fit(holes, sample_weight="w")


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]"])
def test_nullable_groups_of_dask_are_those_of_numpy_and_a_missing_one_is_named(kind):
    X, g = np.arange(8.0)[:, np.newaxis], np.arange(8) // 4
    expected = HDPMeans(1.0, 4.0).fit(X, groups=g)
    frame = pd.DataFrame({"x": X[:, 0], "g": pd.array(g, "Int64")}).astype({"g": kind})
    model = HDPMeans(1.0, 4.0).fit(dd.from_pandas(frame, npartitions=2), groups="g")
    assert model.labels_.compute().tolist() == expected.labels_.tolist()
    frame.loc[6, "g"] = pd.NA
    with pytest.raises(InputError, match="groups has no value at row 2 of a partition: fill"):
        HDPMeans(1.0, 4.0).fit(dd.from_pandas(frame, npartitions=2), groups="g")


def test_data_sets_in_a_list_may_be_frames_of_any_types():
    frame = pl.DataFrame({"a": [1, 9], "b": [True, False]})
    model = HDPMeans(1.0, 1.0).fit([frame, frame])
    expected = HDPMeans(1.0, 1.0).fit([frame.to_numpy().astype(float)] * 2)
    assert model.labels_.tolist() == expected.labels_.tolist()


@pytest.mark.parametrize("lazy", [False, True])
def test_one_column_says_how_it_becomes_a_table(lazy):
    column = pd.Series([0.0, 9.0], name="a")
    if lazy:
        column = dd.from_pandas(column, npartitions=1)
    with pytest.raises(InputError, match=r"one column of a table: pass X.to_frame\(\)"):
        DPMeans(1.0).fit(column)
    assert DPMeans(1.0).fit(column.to_frame()).n_clusters_ == 2


def test_a_data_set_of_pyarrow_says_how_to_read_it(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 9.0], "b": [1.0, 1.0]})
    frame.to_parquet(tmp_path / "part.parquet")
    X = pyarrow.dataset.dataset(tmp_path)
    with pytest.raises(InputError, match=r"FileSystemDataset of PyArrow.*: pass X.to_table\(\),"):
        DPMeans(1.0).fit(X)
    assert DPMeans(1.0).fit(X.to_table()).n_clusters_ == 2


def test_a_query_says_how_to_run_it():
    with pytest.raises(InputError, match=r"X is a LazyFrame, .* not run yet: pass X.collect\(\)"):
        DPMeans(1.0).fit(pl.LazyFrame({"a": [1.0]}))
