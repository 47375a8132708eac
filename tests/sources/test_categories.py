"""Columns of categories: the same codes from every kind of table, and by value in new rows."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Nested, contents, seeds

from dask_dpmeans import DPMeans, fit, load, predict
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources import as_source

NAMES = ["blue", "green", "red", "yellow"]
DIVERGENCE = {"age": "squared", "color": "categorical"}


@st.composite
def colored(draw, rows=(2, 40), holes=True):
    """A data frame of a column of numbers and one of text, in which values may be missing."""
    rng, n = np.random.default_rng(draw(seeds)), draw(st.integers(*rows))
    names = NAMES[: draw(st.integers(1, 4))]
    color = rng.choice(np.array(names, object), n)
    age = rng.normal(size=n)
    if holes:
        color[rng.random(n) < 0.2] = None
        age[rng.random(n) < 0.2] = np.nan
        color[0], age[0] = names[0], 1.0
    return pd.DataFrame({"age": age, "color": pd.Series(color, dtype="str")})


def as_category(frame, draw, path):
    return frame.astype({"color": "category"})


def as_parquet(frame, draw, path):
    """In row groups with dictionaries of their own."""
    frame.to_parquet(f"{path}.parquet", row_group_size=draw(st.integers(1, len(frame))))
    return f"{path}.parquet"


def as_parquet_of_parts(frame, draw, path):
    """In files with dictionaries of their own, in any order."""
    path.mkdir()
    cut = draw(st.integers(1, len(frame) - 1))
    schema = pa.schema([("age", pa.float64()), ("color", pa.dictionary(pa.int8(), pa.string()))])
    for number, part in enumerate((frame[:cut], frame[cut:])):
        color = [each if isinstance(each, str) else None for each in part.color]
        values = draw(st.permutations(sorted({each for each in color if each is not None})))
        indices = pa.array([None if c is None else values.index(c) for c in color], pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))
        table = pa.table([pa.array(part.age), column], schema=schema)
        pyarrow.parquet.write_table(table, path / f"{number}.parquet")
    return str(path)


FORMS = {
    "category": as_category,
    "text": lambda frame, draw, path: frame,
    "objects": lambda frame, draw, path: frame.astype({"color": object}),
    "polars text": lambda frame, draw, path: pl.from_pandas(frame),
    "polars category": lambda frame, draw, path: pl.from_pandas(as_category(frame, draw, path)),
    "polars enum": lambda frame, draw, path: pl.from_pandas(frame).with_columns(
        pl.col("color").cast(pl.Enum(sorted(frame.color.dropna().unique())))
    ),
    "arrow text": lambda frame, draw, path: pa.Table.from_pandas(frame),
    "arrow dictionary": lambda frame, draw, path: pa.Table.from_pandas(
        as_category(frame, draw, path)
    ),
    "dask": lambda frame, draw, path: dd.from_pandas(
        as_category(frame, draw, path), npartitions=draw(st.integers(1, 3))
    ),
    "parquet text": as_parquet,
    "parquet dictionary": lambda frame, draw, path: as_parquet(
        as_category(frame, draw, path), draw, path
    ),
    "parquet files": as_parquet_of_parts,
}


def seen(source):
    return source.fold(Nested()), contents(source.summary)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6)
@given(frame=colored(), data=st.data())
def test_every_table_gives_the_same_codes(form, frame, data, tmp_path_factory):
    table = FORMS[form](frame, data.draw, tmp_path_factory.mktemp("colors") / "rows")
    options = {"threads": 2, "block_rows": 16, "missing": True}
    names = sorted(frame.color.dropna().unique())
    codes = [names.index(color) if isinstance(color, str) else np.nan for color in frame.color]
    source = as_source(table, categories=True, categorical=["color"], **options)
    assert source.categories == {1: tuple(names)}
    expected = as_source(np.column_stack([frame.age, codes]), **options)
    assert seen(source) == seen(expected)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=4)
@given(frame=colored(), data=st.data())
def test_new_rows_are_read_by_category_not_by_code(form, frame, data, tmp_path_factory):
    known = ("red", "yellow", "blue")
    table = FORMS[form](frame, data.draw, tmp_path_factory.mktemp("colors") / "rows")
    source = as_source(table, categories=True, known_categories={1: known}, missing=True)
    codes = [known.index(color) if color in known else np.nan for color in frame.color]
    expected = as_source(np.column_stack([frame.age, codes]), missing=True)
    assert source.categories == {1: known}
    assert seen(source) == seen(expected)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=1)
@given(data=st.data())
def test_an_unknown_category_is_named_with_the_way_out(form, data, tmp_path_factory):
    frame = pd.DataFrame({"age": [1.0, 2.0], "color": ["red", "pink"]})
    table = FORMS[form](frame, data.draw, tmp_path_factory.mktemp("colors") / "rows")
    told = r"column 'color' holds the category 'pink', which the fit did not have \('red'\)"
    with pytest.raises(InputError, match=f"{told}: .* missing='observed'"):
        as_source(table, categories=True, known_categories={1: ("red",)})


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=1)
@given(data=st.data())
def test_categories_are_an_error_unless_the_estimator_takes_them(form, data, tmp_path_factory):
    frame = pd.DataFrame({"age": [1.0, 2.0], "color": ["red", "pink"]})
    table = FORMS[form](frame, data.draw, tmp_path_factory.mktemp("colors") / "rows")
    way = r"as categories, with DPMeans or HDPMeans\(divergence={'color': 'categorical'}\)"
    with pytest.raises(InputError, match=f"column 'color' .*{way}"):
        as_source(table)


@pytest.mark.parametrize("form", ["text", "objects", "polars text", "arrow text", "parquet text"])
@settings(max_examples=1)
@given(data=st.data())
def test_text_is_an_error_unless_it_is_named(form, data, tmp_path_factory):
    frame = pd.DataFrame({"age": [1.0, 2.0], "color": ["red", "pink"]})
    table = FORMS[form](frame, data.draw, tmp_path_factory.mktemp("colors") / "rows")
    with pytest.raises(InputError, match=r"column 'color' .* as categories, with DPMeans"):
        as_source(table, categories=True)


def test_a_category_keeps_the_order_of_its_type():
    size = pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"size": size})
    for table in (frame, dd.from_pandas(frame, npartitions=1)):
        source = as_source(table, categories=True)
        assert source.categories == {0: ("low", "mid", "high")}
        assert source.summary.highest.tolist() == [2.0]


def test_categories_of_numbers_and_dates_are_kept_as_json_holds_them(tmp_path):
    dates = pd.Categorical(pd.to_datetime(["2020-01-02", "2020-01-01"]))
    frame = pd.DataFrame({"code": pd.Categorical([30, 10]), "day": dates})
    source = as_source(frame, categories=True)
    assert source.categories == {0: (10, 30), 1: ("2020-01-01 00:00:00", "2020-01-02 00:00:00")}
    plain = pd.DataFrame({"code": [30, 10]})
    found = as_source(plain, categories=True, known_categories={0: (10, 30)})
    assert found.summary.sums.tolist() == [1.0]


def test_columns_of_numbers_that_are_named_are_codes():
    frame = pd.DataFrame({"code": [3, 0], "color": ["a", "b"]})
    source = as_source(frame, categories=True, categorical=["code", "color"])
    assert source.categories == {1: ("a", "b")}
    assert source.summary.highest.tolist() == [3.0, 1.0]


def test_categories_are_numbered_among_the_columns_that_are_used():
    frame = pd.DataFrame({"age": [1.0, 2.0], "color": pd.Categorical(["red", "pink"])})
    source = as_source(frame, categories=True, columns=[1])
    assert (source.categories, source.layout.categories) == (
        {0: ("pink", "red")},
        {1: ("pink", "red")},
    )


def test_unknown_categories_of_dask_are_an_error_with_the_way_out():
    frame = dd.from_pandas(pd.DataFrame({"color": ["red", "pink"]}), npartitions=2)
    for table in (frame, frame.astype({"color": "category"})):
        with pytest.raises(InputError, match=r"not known .* data\.categorize\(\['color'\]\)"):
            as_source(table, categories=True, categorical=["color"])
    known = as_source(frame.categorize(["color"]), categories=True)
    assert {*known.categories[0]} == {"red", "pink"}


def test_a_table_with_a_category_and_other_text_names_the_text():
    frame = pd.DataFrame({"color": pd.Categorical(["red"]), "town": ["Rome"]})
    with pytest.raises(
        InputError, match=r"'town' \(String\) cannot be read as numbers: .*'town': 'categorical'"
    ):
        as_source(frame, categories=True)


@settings(max_examples=5)
@given(frame=colored(rows=(10, 40)), data=st.data())
def test_a_run_keeps_its_categories_and_predicts_by_them(frame, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    path = as_parquet(frame, data.draw, folder / "rows")
    model = DPMeans(penalty=1.0, divergence=DIVERGENCE, missing="observed")
    expected = model.fit(frame)
    run = fit(path, folder / "run.zarr", model)
    assert run.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert run.labels_.compute().tolist() == expected.labels_.tolist()
    opened = load(folder / "run.zarr")
    assert opened.categories_ == expected.categories_
    others = frame[frame.color.isin(frame.color[:2])]
    new = as_parquet(others, data.draw, folder / "new")
    labels = expected.predict(others)
    assert opened.predict(as_category(others, None, None)).tolist() == labels.tolist()
    assert predict(folder / "run.zarr", new, folder / "out.zarr").n_rows == len(others)


def test_a_run_of_other_categories_is_not_resumed(tmp_path):
    frame = pd.DataFrame({"age": [1.0, 2.0], "color": ["red", "pink"]})
    model = DPMeans(penalty=1.0, divergence=DIVERGENCE, max_iter=5)
    path, run = tmp_path / "rows.parquet", tmp_path / "run.zarr"
    frame.to_parquet(path)
    fit(path, run, model)
    fit(path, run, model, resume=True)
    frame.replace("pink", "blue").to_parquet(path)
    with pytest.raises(InputError, match=r"begun with another input: .*categories"):
        fit(path, run, model, resume=True)
