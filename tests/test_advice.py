"""Advice is obeyed: what an error or a command proposes works as it stands."""

import re
import shlex
from pathlib import Path
from typing import Any

import dask.array
import dask.array as da
import dask.dataframe as dd
import numpy
import numpy as np
import numpy.lib.recfunctions
import pandas
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.neighbors
import xarray
import xarray as xr
import zarr
from click.testing import CliRunner
from scipy.io import netcdf_file
from sklearn.base import clone

import dask_dpmeans
from dask_dpmeans import (
    DPMeans,
    GibbsMixture,
    GraphCutDPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
    fit,
    load,
)
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.cli import main
from dask_dpmeans.report.path_page import page
from dask_dpmeans.selection.commands import after_path
from dask_dpmeans.selection.penalty import penalty_path, write_path
from dask_dpmeans.sources import as_source

ROWS = np.random.default_rng(0).standard_normal((60, 3)) + np.arange(60)[:, None] % 3 * [
    9.0,
    0.0,
    4.0,
]
FRAME = pd.DataFrame(ROWS, columns=["age", "income", "my size"])
KNOWN = {
    "dask": dask,
    "numpy": numpy,
    "pandas": pandas,
    "xarray": xarray,
    "zarr": zarr,
    "dask_dpmeans": dask_dpmeans,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(rows: Any, *, estimator: bool = False) -> str:
    """What is said of rows that cannot be used."""
    with pytest.raises(InputError, match=r"\w") as caught:
        DPMeans(9.0).fit(rows) if estimator else as_source(rows)
    return str(caught.value)


def between(text: str, before: str, after: str) -> str:
    """A proposal in a text."""
    found = re.search(f"{re.escape(before)}(.*?){re.escape(after)}", text, re.DOTALL)
    assert found is not None, text
    return found[1]


def call(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.output


# Parquet


def table(n: int = 9) -> pd.DataFrame:
    """Columns of every kind that can and cannot be used, in rows that are not in the order of their index."""
    numbers = np.arange(float(n))
    columns = {
        "age": numbers,
        "city": ["Ulm"] * n,
        "flag": numbers > 4,
        "some": np.where(numbers > 4, np.nan, 1.0),  # pandas writes nulls
        "big": np.full(n, 2**60),
        "small": np.arange(n, dtype=np.int8),
        "far": np.where(numbers > 4, np.inf, 1.0),
        "a,b": numbers,
        "c#d": numbers,
        "my size": numbers,
        "day": pd.Timestamp("2020-01-01"),
    }
    return pd.DataFrame(columns, index=np.arange(n) * 7 % 11)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "path", ["table.parquet", "a table.parquet", "table.parquet#city", "table.parquet#age,day"]
)
def test_the_columns_that_are_proposed_can_be_read(path: str, statistics: bool) -> None:
    name = path.partition("#")[0]
    pq.write_table(
        pa.Table.from_pandas(table()), name, write_statistics=statistics, row_group_size=4
    )
    [proposed] = shlex.split(between(refused(path), "name those to use, as ", " does"))
    assert proposed == f"{Path(name).absolute()}#age,flag,small,my size"
    assert as_source(proposed).n_features == 4
    call("fit", proposed, "run.zarr", "--penalty", "9")
    assert list(load("run.zarr").feature_names_in_) == ["age", "flag", "small", "my size"]


def test_nan_that_no_footer_tells_is_not_proposed() -> None:
    pq.write_table(pa.table({"a": [1.0, np.nan], "b": [1.0, 2.0], "s": ["x", "y"]}), "t.parquet")
    assert "t.parquet#b' does" in refused("t.parquet")


def test_columns_that_all_files_have_alike_are_proposed(folder: Path) -> None:
    (folder / "many.parquet").mkdir()
    pq.write_table(pa.table({"a": [1.0], "b": [1.0], "c": [1]}), "many.parquet/1.parquet")
    pq.write_table(pa.table({"a": [1], "b": [2.0], "c": [2], "d": [1]}), "many.parquet/2.parquet")
    for path in ("many.parquet", "many.parquet#a,b"):
        [proposed] = shlex.split(between(refused(path), "name those to use, as ", " does"))
        assert as_source(proposed).layout.stored_columns == 2
    with pytest.raises(
        InputError, match=r"must be one column, got a, b, c: name those to use, as '\S+#b' does"
    ):
        as_source(np.ones((2, 1)), "many.parquet/1.parquet#a,b,c".replace("/1.parquet", ""))
    pq.write_table(pa.table({"x": ["a"]}), "text.parquet")
    assert "no column of it holds numbers of one type alone" in refused("text.parquet")


@pytest.mark.parametrize(
    ("content", "column", "text", "numbers"),
    [
        ('a,b\n"1,5",2\n"22,25",3\n', "a", "1,5", [[1.5, 2], [22.25, 3]]),
        ('a,b\n"1,234","1.234,5"\n3,"2,5"\n', "b", "1.234,5", [[1.234, 1234.5], [3, 2.5]]),
        ('a,b\n"1,234",2\n"12,345,678",3\n', "a", "1,234", [[1234, 2], [12345678, 3]]),
        ("a b\n1 2\n3 4.5\n", "a b", "1 2", [[1, 2], [3, 4.5]]),
        ("a|b\n1|2\n3|4.5\n", "a|b", "1|2", [[1, 2], [3, 4.5]]),
    ],
)
def test_numbers_that_are_written_otherwise_are_read_as_numbers(
    folder: Path, content: str, column: str, text: str, numbers: list[list[float]]
) -> None:
    path = folder / "euro.csv"
    path.write_text(content)
    names = f"#{column}" if column == "b" else ""  # else the first column is refused first
    said = refused(f"{path}{names}")
    assert f"column {column!r} of {path} holds {text!r}, which is no number: " in said
    assert ("; or name those to use, as" in said) == (column == "a")
    eval(between(said, "convert it, as ", " does"), KNOWN)
    np.testing.assert_allclose(pd.read_parquet("table.parquet").to_numpy(), numbers)


def test_a_file_of_texts_alone_proposes_categories(folder: Path) -> None:
    Path("words.csv").write_text("a,b\nx,y\nz,n/a\n")
    assert "holds 'x', which is no number: no column of it holds" in refused("words.csv")
    assert "in all of its files; count such columns as categories, with" in refused("words.csv")


# Penalties


HOW: dict[str, list[str]] = {
    "plain": [],
    "read otherwise": [
        "--columns",
        "2,0",
        "--scale",
        "std",
        "--weights",
        "my weights.npy",
        "--threads",
        "1",
    ],
    "directions": ["--metric", "cosine"],
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize("search", [True, False])
def test_the_next_command_fits_what_the_penalty_was_found_for(how: list[str], search: bool) -> None:
    np.save("my rows.npy", ROWS)
    np.save("my weights.npy", np.linspace(0.5, 2, 60))
    words = ["--search"] if search else ["--fit"]
    said = call("penalty", "my rows.npy", "-k", "3", *words, *how)
    _, *proposed = shlex.split(said.splitlines()[-1].removeprefix("next"))
    call(*proposed)
    assert load("run.zarr").n_clusters_ == 3
    assert f"{'price' if search else 'radius'}" in said
    _, *first = shlex.split(
        call("penalty", "my rows.npy", "-k", "3", *how).splitlines()[-1].removeprefix("next")
    )
    assert first[2] == "run-2.zarr"
    call(*first)


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_a_path_ends_with_the_command_that_fits_its_number(how: list[str], folder: Path) -> None:
    np.save("my rows.npy", ROWS)
    np.save("my weights.npy", np.linspace(0.5, 2, 60))
    said = call(
        "path",
        "my rows.npy",
        "path.zarr",
        "--search",
        "--number",
        "12",
        "--from",
        "0.5",
        "--to",
        "500",
        *how,
    )
    found = dask_dpmeans.selection.penalty.read_path("path.zarr")
    facts = page("path.zarr").facts["Result"]
    shown = call("show", "path.zarr").splitlines()[-1].removeprefix("next: ")
    assert facts["fit with this price"] == shown
    for number, line in enumerate((said.splitlines()[-1].removeprefix("next: "), shown)):
        _, *proposed = shlex.split(line)
        run = f"run-{number}.zarr"
        call(*[run if word == "run.zarr" else word for word in proposed])
        model = load(run)
        assert (model.penalty, model.search, model.n_clusters_) == (
            found.penalty,
            True,
            found.longest,
        )


def test_a_path_of_rows_in_memory_says_the_python_that_fits_them() -> None:
    path = penalty_path(ROWS, np.geomspace(1, 1000, 9), search=True, random_state=0)
    write_path(path, "path.zarr")
    proposed = call("show", "path.zarr").splitlines()[-1].removeprefix("next: ")
    assert eval(proposed).fit(ROWS).n_clusters_ == path.longest
    assert after_path(penalty_path(ROWS, [9.0, 99.0], random_state=0)) is None


def test_secrets_are_not_told_by_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    store = zarr.storage.FsspecStore.from_url("memory://rows", storage_options={})
    zarr.create_array(store, data=ROWS)
    said = call(
        "penalty", "memory://rows", "-k", "3", "--storage-option", "token=hidden", "--threads", "1"
    )
    assert "--storage-option token=..." in said
    assert "hidden" not in said


# Stores


def columns_store() -> None:
    dataset = xr.Dataset({name: ("row", FRAME[name].to_numpy()) for name in FRAME})
    dataset = dataset.assign_coords(row=np.arange(60.0)).assign(short=("other", np.arange(5.0)))
    for name, values in dataset.variables.items():
        dimensions = values.dims
        made = zarr.create_array(
            "data.zarr", name=name, data=values.to_numpy(), dimension_names=dimensions
        )
        assert made.ndim == 1


def test_a_store_of_one_column_an_array_is_stacked() -> None:
    zarr.open_group("data.zarr", mode="w")
    columns_store()
    way = between(refused("data.zarr"), "Stack the arrays to use, as ", " does")
    eval(way, KNOWN)
    assert as_source("rows.zarr").n_features == 3
    np.testing.assert_array_equal(zarr.open_array("rows.zarr")[:], ROWS)
    call("fit", "rows.zarr", "run.zarr", "--penalty", "9")
    X = zarr.open_group("data.zarr", mode="r")
    way = between(
        refused(X, estimator=True), "Stack the arrays to use, as ", ".to_zarr('rows.zarr') does"
    )
    model = DPMeans(9.0).fit(eval(way, KNOWN | {"X": X}))
    np.testing.assert_array_equal(model.labels_.compute(), load("run.zarr").labels_.compute())


def test_a_group_proposes_the_arrays_that_can_be_used() -> None:
    group = zarr.open_group("data.zarr", mode="w")
    group.create_array("deep/rows", data=ROWS)
    group.create_array("weights", data=np.ones(60))
    group.create_array("cube", data=np.ones((2, 2, 2)))
    group.create_array("complex", data=np.ones((2, 2), complex))
    for proposed in between(refused("data.zarr") + "$", "give one of its arrays: ", "$").split(
        ", "
    ):
        assert as_source(proposed).n_features == 3
    with pytest.raises(
        InputError, match=r"sample_weight: .* group, not an array: give one .*data.zarr/weights$"
    ):
        as_source(ROWS, "data.zarr")
    data = zarr.open_group("data.zarr", mode="r")
    [proposed] = between(refused(data) + "$", "give one of its arrays: ", "$").split(", ")
    assert as_source(eval(proposed, {"data": data})).n_features == 3


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_with_a_cube_says_how_to_cluster_it(folder: Path, zarr_format: int) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    cube = xr.Dataset({"sst": (("time", "lat", "lon"), values), "sea": (("lat", "lon"), values[0])})
    cube.to_zarr("data.zarr", zarr_format=zarr_format, consolidated=False)
    found = refused("data.zarr")
    assert "as a cube it has sst (time, lat, lon)." in found
    assert "one of its arrays" not in found  # sea has no rows
    options = between(found, "as in ", ", or samples").split()
    call("fit", "data.zarr", "run.zarr", "--penalty", "9", *options)
    samples = eval(f"dict({between(found + '$', 'or ', '$')})")
    model = fit("data.zarr", "again.zarr", DPMeans(9.0), **samples)
    assert model.n_clusters_ == load("run.zarr").n_clusters_
    with pytest.raises(
        InputError, match=r"got shape \(2, 3, 4\): reshape it .* --samples lat,lon$"
    ):
        as_source("data.zarr/sst")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "encoding",
    [
        {"scale_factor": 0.01, "dtype": "int16", "_FillValue": -9999},
        {"add_offset": 5.0, "dtype": "int32", "_FillValue": -9999},
        {"_FillValue": -9999.0},
        {"dtype": "int16", "_FillValue": -9999},
    ],
)
def test_a_packed_array_is_refused_and_read_as_a_cube(
    folder: Path, zarr_format: int, encoding: dict[str, Any]
) -> None:
    cube = xr.Dataset({"obs": (("site", "feature"), np.where(ROWS > 15, np.nan, ROWS))})
    options = {"zarr_format": zarr_format, "consolidated": False}
    cube.to_zarr("data.zarr", encoding={"obs": encoding}, **options)
    found = refused("data.zarr/obs")
    for rows in (zarr.open_array("data.zarr/obs"), zarr.open_group("data.zarr")["obs"]):
        with pytest.raises(InputError, match=r"is packed, .* with \w+="):
            DPMeans(9.0).fit(rows)
    told = {"-9999"} if "_FillValue" in encoding else {"add_offset=5", "scale_factor=0.01"}
    assert any(each in found for each in told)
    names = eval(f"dict({between(found, 'RUN, model, ', ') and the')})")
    model = fit("data.zarr", "run.zarr", DPMeans(9.0), **names)
    with xr.open_zarr("data.zarr", consolidated=False) as decoded:
        values = decoded.obs.values
    expected = DPMeans(9.0).fit(values[~np.isnan(values).any(axis=1)])
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    with pytest.raises(InputError, match=r"sample_weight is packed, .* values: decode it, as "):
        as_source(ROWS, "data.zarr/obs")


def test_a_packed_array_whose_rows_have_the_name_of_an_output_is_decoded(folder: Path) -> None:
    cube = xr.Dataset({"obs": (("row", "feature"), ROWS)}, {"feature": [1.0, 2.0, 3.0]})
    packing = {"scale_factor": 0.5, "dtype": "int16", "_FillValue": -9999}
    cube.to_zarr("data.zarr", encoding={"obs": packing}, zarr_format=2)
    way = between(refused("data.zarr/obs") + "$", "not its values: decode it, as ", " does")
    rows = eval(way, {"xarray": xr, "STORE": "data.zarr"})
    assert fit(rows, "run.zarr", DPMeans(9.0)).labels_.size == len(ROWS)
    with pytest.raises(InputError, match="coordinates called feature, row, as the output") as told:
        fit("data.zarr", "other.zarr", DPMeans(9.0), samples="row", variables="obs")
    renamed = eval(between(str(told.value), "rename them, as ", " of xarray"), {"cube": cube})
    assert str(told.value).endswith("also in samples")
    renamed.to_zarr("renamed.zarr", zarr_format=2)
    model = fit("renamed.zarr", "other.zarr", DPMeans(9.0), samples="row_", variables="obs")
    assert model.labels_.size == len(ROWS)


def test_unsigned_numbers_that_are_stored_as_signed_ones_are_refused(folder: Path) -> None:
    cube = xr.Dataset({"obs": (("site", "feature"), np.abs(ROWS).astype("int8"))})
    cube.obs.attrs["_Unsigned"] = "true"
    cube.to_zarr("data.zarr", consolidated=False)
    assert "_Unsigned=true" in refused("data.zarr/obs")
    cube.obs.attrs["_Unsigned"] = "false"
    cube.to_zarr("data.zarr", mode="w", consolidated=False)
    assert as_source("data.zarr/obs").plan.n_rows == len(ROWS)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_without_names_of_dimensions_is_read_with_any_attributes(
    folder: Path, zarr_format: int
) -> None:
    array = zarr.create_array("rows.zarr", data=ROWS, zarr_format=zarr_format, fill_value=-1.0)
    array.attrs.update({"scale_factor": 2.0, "missing_value": -1})
    assert as_source("rows.zarr").plan.n_rows == len(ROWS)


def test_a_store_with_rows_and_a_cube_proposes_both(folder: Path) -> None:
    sizes = {"image": ("site", "y", "x"), "deep/sst": ("time", "lat", "lon")}
    for key, dims in sizes.items():
        zarr.create_array(f"mix.zarr/{key}", data=np.ones((2, 3, 4)), dimension_names=dims)
    zarr.create_array("mix.zarr/rows", data=ROWS, dimension_names=("row", "feature"))
    zarr.create_array("mix.zarr/mask", data=np.ones((3, 4)), dimension_names=("y", "x"))
    zarr.create_group("mix.zarr")
    found = refused("mix.zarr")
    assert "/mix.zarr/rows; or as a cube it has image (site, y, x)." in found
    assert "sst" not in found


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
def test_an_array_of_xarray_that_is_not_packed_is_read(
    folder: Path, zarr_format: int, dtype: str
) -> None:
    values = np.abs(ROWS).astype(dtype)
    cube = xr.Dataset({"obs": (("row", "feature"), values, {"units": "m", "_FillValue": np.nan})})
    if np.dtype(dtype).kind != "f":
        del cube.obs.attrs["_FillValue"]
    cube.to_zarr("data.zarr", zarr_format=zarr_format, consolidated=False)
    assert as_source("data.zarr/obs").plan.n_rows == len(values)


def test_rows_given_as_a_graph_say_how_to_link_them() -> None:
    X = np.vstack([ROWS, ROWS + 0.01])
    with pytest.raises(InputError, match="n x n, got 120 x 3: of rows X, ") as caught:
        GraphCutDPMeans().fit(X)
    text = str(caught.value)
    links = eval(between(text, "A = ", " has the links"), {"sklearn": sklearn, "X": X})
    graph = eval(between(text, "near rows, and ", " is the graph"), {"A": links})
    assert GraphCutDPMeans(random_state=0).fit(graph).n_clusters_ >= 1


def test_a_store_of_this_package_proposes_its_rows_alone(folder: Path) -> None:
    write_synthetic(Synthetic("blobs", n_rows=200, n_features=3, n_centers=4, seed=0), "made.zarr")
    [proposed] = between(refused("made.zarr") + "$", "give one of its arrays: ", "$").split(", ")
    assert as_source(proposed).plan.n_rows == 200


def test_a_folder_without_metadata_proposes_the_arrays_below_it(folder: Path) -> None:
    for name, version in (("rows", 3), ("deep/old", 2)):
        zarr.create_array(f"bare.zarr/{name}", data=ROWS, zarr_format=version)
    zarr.create_group("bare.zarr/group")
    Path("bare.zarr/broken").mkdir()
    Path("bare.zarr/broken/zarr.json").write_text("{")
    said = between(refused("bare.zarr") + "$", "give one of the arrays below it: ", "$")
    assert [as_source(each).n_features for each in said.split(", ")] == [3, 3]


# Files and objects


def test_objects_in_a_npy_file_are_made_numbers(folder: Path) -> None:
    np.save("objects.npy", ROWS.astype(object), allow_pickle=True)
    eval(between(refused("objects.npy"), "convert it, as ", " does"), {"numpy": np})
    np.testing.assert_array_equal(np.load("numbers.npy"), ROWS)


def test_a_file_without_rows_is_named(folder: Path) -> None:
    np.save("none.npy", ROWS[:0])
    Path("none.csv").write_text("a,b\n")
    for name in ("none.npy", "none.csv"):
        assert f"data: {folder / name}: Found array with 0 sample(s)" in refused(name)
    np.save("rows.npy", ROWS)
    said = CliRunner().invoke(main, ["graph", "rows.npy", "run.zarr"])
    assert (
        f"{folder / 'rows.npy'}: data must be sparse, got a dense array of 60 x 3: pass"
        in said.output
    )


def test_other_files_are_made_into_what_is_read(folder: Path) -> None:
    FRAME.to_csv("my rows.csv.gz", index=False)
    FRAME.to_csv("rows.txt", index=False)
    FRAME.to_csv("rows.tsv.gz", index=False, sep="\t")
    for name in ("my rows.csv.gz", "rows.txt", "rows.tsv.gz"):
        (folder / "table.parquet").unlink(missing_ok=True)
        eval(between(refused(name), "Convert it, as ", " does"), KNOWN)
        assert as_source("table.parquet").layout.column_names == ("age", "income", "my size")
        opened = eval(between(refused(name, estimator=True), "open it first, as ", " does"), KNOWN)
        assert len(DPMeans(9.0).fit(opened).labels_) == 60
    FRAME.to_csv("my rows.csv", index=False)
    FRAME.to_csv("rows.tsv", index=False, sep="\t")
    FRAME.to_feather("rows.feather")
    for name in ("my rows.csv", "rows.tsv", "rows.feather"):
        assert as_source(name).layout.column_names == ("age", "income", "my size")
        opened = eval(between(refused(name, estimator=True), "open it first, as ", " does"), KNOWN)
        assert len(DPMeans(9.0).fit(opened).labels_) == 60
    with netcdf_file("rows.nc", "w") as file:
        file.createDimension("place", 60)
        file.createDimension("column", 3)
        file.createVariable("rows", "f8", ("place", "column"))[:] = ROWS
    assert "name the dimensions of the samples" in refused("rows.nc")
    model = fit("rows.nc", "cube.zarr", DPMeans(9.0), samples=["place"])
    assert model.cluster_centers_.shape[1] == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rows.h5", "HDF5 files are not read. Convert it, as dask.array.from_array(h5py.File("),
        ("rows.xlsx", "Excel files are not read"),
        ("rows.zip", "Zip files are not read. Convert it, as zipfile.ZipFile("),
        (
            "rows.bin",
            "it is a file of another kind; paths of Zarr arrays, of Zarr groups of CSR rows",
        ),
        ("folder", "the folder is empty; paths of Zarr arrays"),
        ("folder of notes", "the folder has no metadata of Zarr; paths of Zarr arrays"),
    ],
)
def test_what_no_command_can_read_is_told_what_is(folder: Path, name: str, said: str) -> None:
    for each in ("folder", "folder of notes"):
        (folder / each).mkdir()
    (folder / "folder of notes" / "notes.rst").write_text("notes")
    if not name.startswith("folder"):
        (folder / name).write_bytes(b"\x89HDF")
    result = CliRunner().invoke(main, ["fit", name, "run.zarr", "--penalty", "1"])
    assert (result.exit_code, said in result.output, "StorePath" in result.output) == (
        2,
        True,
        False,
    ), result.output


def test_a_path_given_to_an_estimator_is_opened_or_goes_elsewhere() -> None:
    np.save("rows.npy", ROWS)
    FRAME.to_parquet("rows.parquet")
    zarr.create_array("rows.zarr", data=ROWS)
    model = DPMeans(9.0, random_state=0)
    for path in ("rows.npy", Path("rows.npy"), "rows.parquet"):
        opened = eval(between(refused(path, estimator=True), "open it first, as ", " does"), KNOWN)
        assert len(DPMeans(9.0).fit(opened).labels_) == 60
    for path in ("rows.npy", "rows.parquet", "rows.zarr", "rows.parquet#age,income"):
        way = between(
            refused(path, estimator=True), "give the path to ", ", to dask_dpmeans.predict"
        )
        assert (
            eval(
                way.replace("run.zarr", f"{path.replace('#', '-')}.run"), KNOWN | {"model": model}
            ).n_clusters_
            > 1
        )
    fitted = DPMeans(9.0).fit(ROWS)
    for ask in (fitted.predict, fitted.transform, fitted.score):
        with pytest.raises(
            InputError, match=r"X is a path, 'rows\.npy', and DPMeans takes rows: open it first"
        ):
            ask("rows.npy")


def objects() -> dict[str, Any]:
    mixed = FRAME.assign(town="Ulm", day=pd.Timestamp("2020"))
    dataset = xr.Dataset({name: ("row", FRAME[name].to_numpy()) for name in FRAME})
    return {
        "query": pl.from_pandas(FRAME).lazy(),
        "dataset": dataset,
        "records": FRAME.to_records(index=False),
        "pandas": mixed,
        "category": mixed.astype({"town": "category"}),
        "polars": pl.from_pandas(mixed),
        "arrow": pa.table(mixed),
        "dask": dd.from_pandas(mixed, npartitions=2),
    }


@pytest.mark.parametrize("estimator", [True, False])
@pytest.mark.parametrize("kind", objects())
def test_what_is_no_table_of_numbers_is_told_how_to_become_one(kind: str, estimator: bool) -> None:
    rows = objects()[kind]
    said = refused(rows, estimator=estimator)
    ends = (
        ("", "$")
        if kind in ("query", "dataset", "records")
        else ("columns of numbers, as ", " does")
    )
    way = between(said + "$", *ends) if ends[0] else re.split(r"pass |columns, ", said)[-1]
    known = {"X": rows, "data": rows, "numpy": numpy}
    usable = eval(way, known)
    assert len(np.asarray(usable)) == 60
    labels = DPMeans(9.0).fit(usable).labels_
    np.testing.assert_array_equal(np.asarray(labels), DPMeans(9.0).fit(ROWS).labels_)


def test_booleans_and_columns_that_may_miss_values_are_read_in_dask_frames_as_in_others() -> None:
    frame = FRAME.assign(flag=FRAME.age > 4, count=pd.array(np.arange(60), dtype="Int64"))
    lazy = dd.from_pandas(frame, npartitions=3)
    model = DPMeans(20.0).fit(frame)
    np.testing.assert_array_equal(DPMeans(20.0).fit(lazy).labels_.compute(), model.labels_)
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.labels_)
    np.testing.assert_array_equal(
        fit(lazy, "run.zarr", DPMeans(20.0)).labels_.compute(), model.labels_
    )
    missing = frame.assign(count=pd.array([None, *range(59)], dtype="Int64"))
    with pytest.raises(InputError, match=r"data contains NaN \(nan\) at row 0 .*column 'count'"):
        DPMeans(20.0).fit(dd.from_pandas(missing, npartitions=3))


@pytest.mark.parametrize("form", [np.asarray, lambda rows: da.from_array(rows, chunks=(20, 3))])
def test_text_that_spells_numbers_is_converted_as_is_said(form: Any) -> None:
    for rows in (ROWS.astype(str), ROWS.astype(object)):
        if rows.dtype == object and form is np.asarray:
            continue  # which is read as it is
        way = re.search(r"data\.astype\(float\)", refused(form(rows)))
        assert way is not None
        assert as_source(eval(way[0], {"data": form(rows)})).n_features == 3


def test_first_centers_of_none_are_told_as_none() -> None:
    with pytest.raises(InputError, match=r'init must be "mean", centers .*, got None$'):
        DPMeans(9.0, init=None).fit(ROWS)


@pytest.mark.parametrize(
    "model",
    [
        DPMeans(9.0),
        HDPMeans(9.0, 9.0),
        KernelDPMeans(0.5),
        LinkageDPMeans(),
        SpectralDPMeans(0.5, affinity="rbf"),
        OnlineDPMeans(9.0),
        SplitMergeDPMeans(9.0),
        GibbsMixture(),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("form", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_a_missing_value_is_named_by_its_column(model: Any, form: Any) -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "income": [1.0, np.nan, 3.0]})
    message = r"data contains NaN \(nan\) at row 1, column 'income': remove or replace"
    with pytest.raises(InputError, match=message):
        clone(model).fit(form(frame))
    fitted = clone(model).fit(form(frame.fillna(0.0)))
    if hasattr(fitted, "predict"):
        with pytest.raises(InputError, match=message):
            fitted.predict(form(frame))


def test_a_column_that_overflows_is_named() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "income": [-1e300, 1e300]})
    with pytest.raises(
        InputError, match=r"overflow float64: column 'income' reaches from -1e\+300"
    ):
        DPMeans(9.0).fit(frame)


@pytest.mark.parametrize("init", ["k-means++", "random", "rows.npy", 3])
def test_first_centers_that_are_none_are_told_what_they_may_be(init: Any) -> None:
    np.save("rows.npy", ROWS)
    with pytest.raises(
        InputError, match=r'init must be "mean", centers \(k, d\), a|first centers must be finite'
    ):
        DPMeans(9.0, init=init).fit(ROWS)
