"""Arrays of one chunk: the files are those that Zarr writes, and what is not as it was written is left to Zarr."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore, StorePath

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.storage import arrays, one_chunk
from dask_dpmeans.storage.location import Location

TYPES = ["<f8", "<f4", "<i8", "<i4", "|u1", "|b1", ">f8", ">i4"]
NAMES = ("one", "two", "three")
values_of_any_type = st.sampled_from(TYPES).flatmap(
    lambda dtype: drawn.arrays(dtype, drawn.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


def by_zarr(values: np.ndarray, dimensions: Any, attributes: dict[str, Any]) -> dict[str, bytes]:
    """The files that Zarr writes of an array in one chunk."""
    written: dict[str, Any] = {}
    place = StorePath(MemoryStore(written))
    height = len(values) if values.ndim else 1
    little = values.dtype.newbyteorder("<")
    made = arrays.create(place, values.shape, little, dimensions, height, attributes)
    if values.size:
        made[...] = values
    return {name: value.to_bytes() for name, value in written.items()}


@given(values_of_any_type, st.booleans())
def test_the_files_of_an_array_are_those_that_zarr_writes(values: np.ndarray, named: bool) -> None:
    dimensions = NAMES[: values.ndim] if named and values.ndim else None
    attributes = {"unit": "m", "layout": {"a": [1]}}
    files = one_chunk.array_files(values, dimensions, attributes)
    wanted = by_zarr(values, dimensions, attributes)
    assert json.loads(files.pop("zarr.json")) == json.loads(wanted.pop("zarr.json"))
    assert files == wanted


@given(values_of_any_type)
def test_what_is_written_is_read_with_the_same_bits_here_and_by_zarr(values: np.ndarray) -> None:
    files = one_chunk.array_files(values, None, {})
    metadata = one_chunk.plain_metadata(files["zarr.json"])
    assert metadata is not None
    found = one_chunk.values_of(metadata, files.get(one_chunk.chunk_name(values.ndim)))
    assert found is not None
    to_buffer = default_buffer_prototype().buffer.from_bytes
    store = MemoryStore({name: to_buffer(file) for name, file in files.items()})
    little = values.astype(values.dtype.newbyteorder("<"))
    for each in (found, np.asarray(zarr.open_array(store, mode="r")[...])):
        assert (each.shape, each.dtype, each.tobytes()) == (
            values.shape,
            little.dtype,
            little.tobytes(),
        )


@given(st.data())
@settings(max_examples=200)
def test_a_changed_byte_of_a_chunk_is_known(data: st.DataObject) -> None:
    files = one_chunk.array_files(np.arange(40.0).reshape(20, 2), None, {})
    metadata = one_chunk.plain_metadata(files["zarr.json"])
    assert metadata is not None
    chunk = bytearray(files["c/0/0"])
    if data.draw(st.booleans()):
        chunk[data.draw(st.integers(0, len(chunk) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del chunk[data.draw(st.integers(0, len(chunk) - 1)) :]
    assert one_chunk.values_of(metadata, bytes(chunk)) is None
    assert one_chunk.values_of(metadata, None) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": [3]},
        {"shape": "two"},
        {"data_type": "float32"},
        {"data_type": "complex128"},
        {"data_type": 3},
        {"codecs": []},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}},
        {"fill_value": 0.0},
        {"zarr_format": 2},
        {"node_type": "group"},
        {"dimension_names": 4},
    ],
)
def test_metadata_that_are_not_as_they_are_written_here_are_left_to_zarr(
    changed: dict[str, Any],
) -> None:
    files = one_chunk.array_files(np.arange(2.0), ("step",), {})
    metadata = json.loads(files["zarr.json"]) | changed
    plain = one_chunk.plain_metadata(json.dumps(metadata).encode())
    assert plain is None or one_chunk.values_of(plain, files["c/0"]) is None
    for cut in (None, b"", b"[]", b"3", files["zarr.json"][:-9], b"[" * 100_000):
        assert one_chunk.plain_metadata(cut) is None


def test_an_array_that_zarr_wrote_another_way_is_read_as_well(tmp_path: Path) -> None:
    place, values = Location.at(tmp_path / "array"), np.arange(6.0).reshape(2, 3)
    content = arrays.write(place, values)
    attributes = json.loads((tmp_path / "array/zarr.json").read_text())["attributes"]
    zarr.create_array(
        tmp_path / "array", data=values, compressors=[], attributes=attributes, overwrite=True
    )
    assert arrays.read(place, content)[0].tolist() == values.tolist()
    (tmp_path / "array/c/0/0").unlink()
    with pytest.raises(CorruptStoreError, match="is missing"):
        arrays.read(place, content)


def test_several_arrays_are_read_as_each_by_itself(tmp_path: Path) -> None:
    group = Location.at(tmp_path)
    given = {
        "numbers": np.arange(5.0),
        "none": np.zeros((0, 2)),
        "one": np.array(3),
        "words": np.array(["a", "", "ü"], np.dtypes.StringDType()),
    }
    contents = {name: arrays.write(group / name, values) for name, values in given.items()}
    found = arrays.read_many(group, contents)
    assert list(found) == list(given)
    for name, values in given.items():
        assert found[name][0].tolist() == values.tolist()
        assert arrays.read(group / name, contents[name])[0].tolist() == values.tolist()
    exchanged = contents | {"numbers": contents["one"]}
    with pytest.raises(CorruptStoreError, match="numbers does not hold what was written there"):
        arrays.read_many(group, exchanged)


def test_the_metadata_of_a_run_are_consolidated_as_zarr_does_it(tmp_path: Path) -> None:
    run, rows = tmp_path / "run.zarr", np.random.default_rng(0).normal(size=(60, 2))
    fit(rows, run, DPMeans(4.0, random_state=0))
    ours = json.loads((run / "zarr.json").read_text())["consolidated_metadata"]
    shutil.rmtree(run / "steps")  # which is no member of the result
    with pytest.warns(UserWarning, match="Consolidated metadata"):
        zarr.consolidate_metadata(run)
    assert json.loads((run / "zarr.json").read_text())["consolidated_metadata"] == ours
