"""NaN, nulls and masked entries as missing values."""

from typing import ClassVar

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Nested, chunkings, contents, seeds, tables

from dask_dpmeans import DPMeans
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.sources import as_source, source_of_features

BLOCK_ROWS = 16


def as_masked(rows, draw, path):
    """Masked entries hold values that are not to be seen."""
    return np.ma.masked_array(np.where(np.isnan(rows), 77, rows), np.isnan(rows))


def as_dask(rows, draw, path):
    return da.from_array(rows, chunks=tuple(draw(chunkings(size)) for size in rows.shape))


def as_dask_of_masked(rows, draw, path):
    return da.ma.masked_invalid(as_dask(rows, draw, path))


def as_frame(rows, draw, path):
    return pd.DataFrame(rows).rename(columns=str)


def as_nullable(rows, draw, path):
    return as_frame(rows, draw, path).convert_dtypes(dtype_backend="numpy_nullable")


def as_objects(rows, draw, path):
    """Each missing value one of those that people have."""
    rng, frame = np.random.default_rng(draw(seeds)), as_frame(rows, draw, path).astype(object)
    kinds = np.array([None, pd.NA, pd.NaT, np.nan], object)
    return frame.mask(np.isnan(rows), kinds[rng.integers(4, size=rows.shape)])


def as_polars(rows, draw, path):
    return pl.DataFrame(rows).fill_nan(None)


def as_arrow(rows, draw, path):
    return pa.Table.from_pandas(as_frame(rows, draw, path))


def as_parquet(rows, draw, path):
    frame = as_frame(rows, draw, path)
    frame.to_parquet(f"{path}.parquet", row_group_size=draw(st.integers(1, len(rows))))
    return f"{path}.parquet"


def as_zarr(rows, draw, path):
    made = zarr.create_array(
        f"{path}.zarr",
        shape=rows.shape,
        chunks=(draw(st.integers(1, len(rows))), 1),
        dtype=rows.dtype,
    )
    made[:] = rows
    return made


FORMS = {
    "masked": as_masked,
    "dask": as_dask,
    "dask of masked": as_dask_of_masked,
    "pandas": as_frame,
    "nullable": as_nullable,
    "objects": as_objects,
    "lists": lambda rows, draw, path: as_objects(rows, draw, path).to_numpy().tolist(),
    "polars": as_polars,
    "arrow": as_arrow,
    "parquet": as_parquet,
    "dask frame": lambda rows, draw, path: dd.from_pandas(
        as_frame(rows, draw, path), npartitions=2
    ),
    "zarr": as_zarr,
    "csr": lambda rows, draw, path: scipy.sparse.csr_array(rows),
    "dask of csr": lambda rows, draw, path: as_dask(rows, draw, path).map_blocks(
        scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0), dtype=rows.dtype)
    ),
}


@st.composite
def holed_tables(draw, rows=(1, 60)):
    """Rows with a value at least; float64, as the objects of Python are."""
    values = draw(tables(rows, (1, 3), kinds=("clouds",), dtypes=(np.float64,)))
    holes = np.random.default_rng(draw(seeds)).random(values.shape)
    values[holes < draw(st.sampled_from([0.0, 0.2, 0.8]))] = np.nan
    values[0, 0] = 1.5
    return values


def seen(source):
    return source.fold(Nested()), contents(source.summary)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6)
@given(rows=holed_tables(), data=st.data())
def test_missing_values_of_every_form_are_the_same_bytes(form, rows, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("holes") / "rows"
    options = {"threads": 2, "block_rows": BLOCK_ROWS, "missing": True}
    given_rows = FORMS[form](rows, data.draw, path)
    assert seen(as_source(given_rows, **options)) == seen(as_source(rows, **options))


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=1)
@given(data=st.data())
def test_missing_values_of_every_form_are_an_error_by_default(form, data, tmp_path_factory):
    rows, path = np.array([[1.5, 2.5], [np.nan, 4.5]]), tmp_path_factory.mktemp("holes") / "rows"
    told = "data (contains|is a masked array|is a Dask array of MaskedArray|is not an array of)"
    with pytest.raises(InputError, match=told):
        as_source(FORMS[form](rows, data.draw, path))


def test_integers_and_booleans_with_missing_values_become_floats(tmp_path):
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 3], "Int8"), "b": pd.array([True, None, False], "boolean")}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    source = as_source(tmp_path / "t.parquet", missing=True)
    assert source.layout.stored_dtype == source.prepare.dtype == np.float32
    assert source.summary.mean.tolist() == [2.0, 0.5]
    masked = np.ma.masked_array(np.array([[1], [2], [3]], np.int16), [[0], [1], [0]])
    assert as_source(masked, missing=True).prepare.dtype == np.float32
    assert as_source(masked.astype(np.int64), missing=True).prepare.dtype == np.float64


def test_integers_that_float64_cannot_tell_apart_are_refused_beside_missing_values(tmp_path):
    large = 2**53 + 1
    masked = np.ma.masked_array([[large], [1]], [[0], [1]])
    with pytest.raises(
        InputError, match=f"data holds the integer {large} at row 0, column 0: beyond 2"
    ):
        as_source(masked, missing=True)
    as_source(np.ma.masked_array([[large], [1]], [[1], [0]]), missing=True)
    pd.DataFrame({"a": pd.array([None, large], "Int64")}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=f"data holds the integer {large} at row 1, column 'a'"):
        as_source(tmp_path / "t.parquet", missing=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_an_error_where_values_may_be_missing(value):
    rows = np.array([[np.nan, 1.0], [2.0, value]])
    with pytest.raises(InputError, match=r"data contains infinity \(-?inf\) at row 1, column 1"):
        as_source(rows, missing=True)


def test_rows_without_any_value_are_an_error():
    with pytest.raises(InputError, match="every value of data is missing"):
        as_source(np.full((3, 2), np.nan), missing=True)


def test_sparse_kernels_take_no_missing_values():
    with pytest.raises(InputError, match=r"sparse=True leaves rows as they are: .* missing"):
        as_source(scipy.sparse.eye_array(3), sparse=True, missing=True)


@given(rows=holed_tables(rows=(3, 60)))
def test_columns_are_divided_by_the_deviation_of_their_observed_values(rows):
    rows = np.column_stack([rows, np.full(len(rows), np.nan)])
    source = as_source(rows, scale="std", missing=True, block_rows=BLOCK_ROWS)
    varied = [len(np.unique(column[~np.isnan(column)])) > 1 for column in rows.T]
    expected = [
        np.nanstd(column) if there else 1.0 for column, there in zip(rows.T, varied, strict=True)
    ]
    np.testing.assert_allclose(source.scale, expected, rtol=1e-12)
    np.testing.assert_allclose(source.summary.deviation, np.array(varied, float), rtol=1e-12)


class Filled:
    """Features: 0 in place of a missing value."""

    n_features = None

    def __call__(self, rows, scratch):
        return np.nan_to_num(rows)

    def error_message(self, position):
        return f"no features at {position}"


def test_features_are_of_rows_with_missing_values():
    rows = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan]])
    plain = as_source(rows, missing=True)
    for source in (
        source_of_features(plain, Filled()),
        as_source(rows, features=Filled(), missing=True),
        as_source(rows, features=Filled(), scale=np.ones(2), missing=True),
    ):
        assert source.summary.mean.tolist() == [1.0, 0.5]  # the last row has no weight
        assert source.summary.empty_rows == 1


class FillMap:
    """A map of rows that is fitted to nothing."""

    parameters: ClassVar[dict] = {}

    def check_weights(self, sample_weight):
        pass

    def fit(self, source, seed):
        return MappedRows(source_of_features(source, Filled()))


class HoledDPMeans(DPMeans):
    """DP-means of rows with 0 for each missing value."""

    def _accepts(self):
        return {"missing": True}

    def _feature_map(self):
        return FillMap()


@pytest.mark.parametrize("form", [form for form in FORMS if form != "parquet"])
@settings(max_examples=2)
@given(rows=holed_tables(rows=(4, 40)), data=st.data())
def test_an_estimator_may_accept_missing_values(form, rows, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("holes") / "rows"
    weights = (~np.isnan(rows).all(axis=1)).astype(float)  # rows without any value have none
    expected = DPMeans(penalty=9.0).fit(np.nan_to_num(rows), sample_weight=weights)
    X = FORMS[form](rows, data.draw, path)
    model = HoledDPMeans(penalty=9.0).fit(X)
    assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    for labels in (model.labels_, model.predict(X)):
        assert np.asarray(labels).tolist() == expected.labels_.tolist()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[np.nan]]), "data contains NaN"),
        (np.ma.masked_array([[1.0]], [[1]]), "X is a masked array"),
        (pd.DataFrame({"a": pd.array([None, 1], "Int64")}), "data contains NaN"),
    ],
)
def test_other_estimators_refuse_missing_values(X, message):
    with pytest.raises(InputError, match=message):
        DPMeans(penalty=1.0).fit(X)
