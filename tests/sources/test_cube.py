"""Cubes in stores: the same rows as NumPy's, labels at their coordinates, each chunk read once."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_memory

from dask_dpmeans import DPMeans, dry_run, fit, load, predict
from dask_dpmeans.engine.plan import Plan
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources import as_source, planning
from dask_dpmeans.sources.cube_plan import join_slabs, rows_read, slabs
from dask_dpmeans.sources.formats import cube_chunks, cube_opening, cube_values
from dask_dpmeans.sources.formats.cube import CubePath
from dask_dpmeans.sources.formats.cube_opening import PART_BYTES, open_cube
from dask_dpmeans.sources.resources import WORKER_BYTES, Resources
from dask_dpmeans.storage.location import Location

HERE: Any = {"threads": 2, "memory_limit": 2**30}
NAMES = ("time", "lat", "lon")
SIZES = {
    **dict.fromkeys(["RUN_BYTES", "PART_BYTES"], cube_opening),
    **dict.fromkeys(["LEAST_LINE", "LEAST_STRETCH", "COPIED", "TURNED"], cube_values),
}
ENCODINGS: list[dict[str, Any]] = [
    {},
    {"dtype": "int16", "scale_factor": 0.01, "add_offset": 3.0, "_FillValue": -999},
    {"dtype": "float32", "_FillValue": -1e9},
]


def cube_of(sizes: tuple[int, ...], seed: int = 0, missing: float = 0.2) -> xarray.Dataset:
    """Return two variables on a grid, with samples that lack values."""
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=3.0, size=(2, *sizes))
    values[:, rng.random(sizes) < missing / sizes[0]] = np.nan
    coords = {
        "time": np.array("2000-01", "datetime64[M]") + np.arange(sizes[0]),
        "lat": ("lat", np.linspace(-60, 60, sizes[1]), {"units": "degrees_north"}),
        "lon": np.arange(sizes[2]) * 2.5,
    }
    coords["time"] = coords["time"].astype("datetime64[ns]")
    both = {"sst": (NAMES, values[0]), "chl": (NAMES, values[1].astype(np.float32))}
    return xarray.Dataset(both, coords)


def written(
    cube: xarray.Dataset, path: Path, chunks: tuple[int, ...], version: int, packed: dict[str, Any]
) -> str:
    """Write a cube, all chunks of it, and return its path."""
    encoding = {name: {"chunks": chunks, **packed} for name in cube}
    cube.to_zarr(
        path, mode="w", zarr_format=version, encoding=encoding, consolidated=version == 2,
        write_empty_chunks=True,
    )  # fmt: skip
    return str(path)


def flattened(cube: xarray.DataArray, samples: tuple[str, ...], features: tuple[str, ...]) -> Any:
    """Return the rows of a cube as a user makes them, and which samples they are."""
    n = int(np.prod([cube.sizes[name] for name in samples]))
    rows = cube.transpose(*samples, *features).values.reshape(n, -1)
    present = ~np.isnan(rows).any(axis=1)
    return rows[present], present


def read(path: str, *names: Any) -> Any:
    """Return the rows that a source reads."""
    source = as_source(CubePath(path, *names), **HERE)
    return np.concatenate([shard.rows for shard in source.shards])


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 7)] * 3),
    chunks=st.tuples(*[st.integers(1, 7)] * 3),
    order=st.permutations(NAMES),
    n_samples=st.integers(1, 2),
    version=st.sampled_from([2, 3]),
    packed=st.sampled_from(ENCODINGS),
    several=st.booleans(),
    small=st.sets(st.sampled_from(sorted(SIZES))),
)
def test_the_rows_of_a_store_are_those_that_numpy_flattens(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: tuple[int, ...],
    chunks: tuple[int, ...],
    order: list[str],
    n_samples: int,
    version: int,
    packed: dict[str, Any],
    several: bool,
    small: set[str],
) -> None:
    """For any order of dimensions, chunks, encoding and version, read and copied in any parts."""
    path = tmp_path_factory.mktemp("cube") / "cube.zarr"
    heights = tuple(map(min, chunks, sizes))
    with pytest.MonkeyPatch.context() as patch:
        for name in small:
            patch.setattr(SIZES[name], name, 16)
        where = written(cube_of(sizes), path, heights, version, packed)
        samples, features = tuple(order[:n_samples]), tuple(order[n_samples:])
        with xarray.open_zarr(path, chunks=None, consolidated=version == 2) as cube:
            expected: Any = cube.sst
            names: Any = "sst"
            if several:
                names, features = ("chl", "sst"), (features[0], "variable", *features[1:])
                expected = cube[["chl", "sst"]].to_dataarray()
            rows, _ = flattened(expected, samples, features)
        if not len(rows):
            with pytest.raises(InputError, match=r"0 sample.*keep .* by missing='observed'"):
                read(where, samples, features, names)
            return
        found = read(where, samples, features, names)
    assert found.dtype == rows.dtype
    assert found.tobytes() == rows.tobytes()


def test_values_are_the_same_if_the_codecs_write_into_the_box_themselves(tmp_path: Path) -> None:
    """As other pipelines of codecs do; some chunks are not stored and have the fill value."""
    array = zarr.create_array(
        tmp_path / "a", shape=(7, 9), chunks=(3, 4), dtype=">i2", fill_value=5
    )
    array[1:4, 2:7] = np.arange(15).reshape(3, 5)
    box = slice(1, 6), slice(2, 9)
    kept = cube_chunks._stored_box(array, box)
    assert kept.whole
    assert len(kept.pieces) == 6
    written = cube_chunks.Chunks(np.asarray(array[box]))
    assert not written.whole
    present = np.arange(7) != 3
    for found, least in ((kept, 1), (written, 1), (kept, 1000)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cube_values, "LEAST_LINE", least)
            read = cube_values.Box(found, (1, 0), 1)
            features = list(cube_values.Features.of((slice(0, 5),), read, (7,), 1))
        assert len(features) == (2 if least == 1 and found is kept else 1)
        rows = cube_values.RunRows(features, (5,), np.dtype(np.int16), present, range(6))
        np.testing.assert_array_equal(rows[:], np.delete(array[box].T, 3, axis=0))


@settings(deadline=None)
@given(present=st.lists(st.booleans(), min_size=1, max_size=40), data=st.data())
def test_any_rows_of_a_run_are_turned_by_stretches_and_together(
    present: list[bool], data: st.DataObject
) -> None:
    """As NumPy chooses them, where samples between rows are copied too and where none is."""
    mask = np.array(present)
    maps = np.arange(3 * len(mask)).reshape(3, -1)
    cut = data.draw(st.integers(1, len(mask)))
    lines = [each for each in np.split(maps.T, [cut]) if len(each)]
    features = [cube_values.Features((slice(0, 3),), (slice(0, 3),), [0, cut], lines)]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, int(mask.sum()))] * 2)))
    run = cube_values.RunRows(features, (3,), maps.dtype, mask, range(start, stop))
    first, end = sorted(data.draw(st.tuples(*[st.integers(0, stop - start)] * 2)))
    expected = maps.T[mask][start:stop]
    for least in (0, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cube_values, "LEAST_STRETCH", least)
            patch.setattr(cube_values, "TURNED", data.draw(st.integers(1, 20)))
            np.testing.assert_array_equal(run[first:end], expected[first:end])
            written = np.full_like(expected, -1)
            run.write(written)
            np.testing.assert_array_equal(written, expected)


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    chunks=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    most=st.integers(0, 300),
)
def test_runs_cover_all_samples_in_order_and_cut_no_chunk(
    shape: list[int], chunks: list[int], most: int
) -> None:
    """The chunks of the samples of each run are in no other run."""
    runs = join_slabs(slabs(shape, chunks[: len(shape)]), most)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    chunk_of = np.ravel_multi_index(
        [places // height for places, height in zip(np.indices(shape), chunks, strict=False)], shape
    )
    seen: set[int] = set()
    bounds = [runs.bounds(number) for number in range(len(runs))]
    assert [start for start, _ in bounds] == runs.all_present()[:-1].tolist()
    assert runs.all_present()[-1] == runs.n_samples == numbers.size
    for number, (start, stop) in enumerate(bounds):
        box = runs.box(number)
        assert numbers[box].ravel().tolist() == list(range(start, stop))
        chunks_here = set(chunk_of[box].ravel().tolist())
        assert not seen & chunks_here
        seen |= chunks_here
        assert stop - start <= max(most, slabs(shape, chunks[: len(shape)]).most_samples)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=20),
    block_rows=st.sampled_from([1, 2, 8]),
    shard_blocks=st.sampled_from([1, 2, 8]),
)
def test_the_read_factor_counts_a_run_for_each_shard_that_it_touches(
    counts: list[int], block_rows: int, shard_blocks: int
) -> None:
    """As one does who looks at each shard and run."""
    counts.append(1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    plan = Plan(int(starts[-1]), block_rows, shard_blocks)
    expected = 0
    for first, last in plan.shard_bounds():
        for start, stop in pairwise(starts):
            if max(first, start) < min(last, stop):
                expected += stop - start
    assert rows_read(plan, starts) == expected


@pytest.fixture
def cube(tmp_path: Path) -> tuple[str, xarray.Dataset]:
    """A cube of 30 x 20 samples in a store."""
    made = cube_of((4, 30, 20), missing=0.3)
    return written(made, tmp_path / "cube.zarr", (2, 7, 6), 3, {}), made


def test_a_run_shows_labels_at_the_coordinates_of_their_samples(
    cube: tuple[str, xarray.Dataset], tmp_path: Path
) -> None:
    """Each label is looked up by latitude and longitude, in the run and in predictions."""
    path, made = cube
    run, out = tmp_path / "run.zarr", tmp_path / "out.zarr"
    model = DPMeans(60.0, random_state=0)
    names = {"samples": ("lon", "lat"), "features": "time", "variables": "sst"}
    fitted = fit(path, run, model, **names, **HERE)
    rows, present = flattened(made.sst, ("lon", "lat"), ("time",))
    expected = DPMeans(60.0, random_state=0).fit(rows)
    assert fitted.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert 1 < fitted.n_clusters_ < 100
    predict(run, path, out, **HERE)
    samples = [(lon, lat) for lon in made.lon.values for lat in made.lat.values]
    labels = np.full(len(samples), -1)
    labels[present] = expected.labels_
    for store in (run, out):
        with xarray.open_zarr(store) as found:
            shown = found.label_map.load()
            assert found.lat.attrs["units"] == "degrees_north"
            assert (
                found.cluster_centers.time.values.tolist() == made.time.values.tolist()
                if store == run
                else True
            )
        for (lon, lat), label in zip(samples, labels, strict=True):
            assert int(shown.sel(lon=lon, lat=lat)) == label
    assert np.asarray(load(run).labels_).tolist() == expected.labels_.tolist()


@pytest.mark.filterwarnings("ignore:The data type")  # of text in a store that is written here
def test_all_coordinates_and_attributes_are_in_the_run(tmp_path: Path) -> None:
    """Scalars, times to the nanosecond, text with spaces, and attributes that are no text."""
    made = cube_of((4, 3, 5), missing=0.0)[["sst"]]
    times = np.array(["2000-01-01T00:00:00.123456789", "NaT", "2001", "2002"], "datetime64[ns]")
    attrs = {"range": [0.5, 9], "of": {"a": [1]}, "flag": True, "none": None}
    made = made.assign_coords(
        depth=((), np.float32(2.5), {"units": "m", **attrs}),
        made=((), np.datetime64("2020-02-03T04:05:06.789", "ns")),
        place=("lat", np.array(["North Sea", "Skagerrak", "a_b"])),
        time=times,
        area=(("lat", "lon"), np.arange(15.0).reshape(3, 5)),
        season=("time", np.array(["a b", "c", "", "é"])),
    )
    path = written(made, tmp_path / "cube.zarr", (4, 3, 5), 3, {})
    run = tmp_path / "run.zarr"
    fitted = fit(path, run, DPMeans(60.0, random_state=0), samples=("lat", "lon"), **HERE)
    with xarray.open_zarr(path, consolidated=False) as stored, xarray.open_zarr(run) as found:
        for name, coord in stored.coords.items():
            assert name in found.coords
            np.testing.assert_array_equal(found[name].values, coord.values)
            assert found[name].attrs.items() >= coord.attrs.items()
        assert found.time.dtype == "datetime64[ns]"
        assert found.depth.attrs["of"] == {"a": [1]}
    assert len(np.asarray(fitted.labels_)) == 15


def test_a_coordinate_may_not_hide_what_the_output_notes(tmp_path: Path) -> None:
    """Its digest."""
    made = cube_of((2, 3, 5), missing=0.0)[["sst"]]
    made.lat.attrs["digest"] = "mine"
    path = written(made, tmp_path / "cube.zarr", (2, 3, 5), 3, {})
    with pytest.raises(InputError, match=r"'lat' may not have the attribute 'digest'"):
        fit(path, tmp_path / "run.zarr", DPMeans(4.0), samples=("lat", "lon"), **HERE)


def test_a_stopped_fit_goes_on_and_a_run_is_removed_with_its_map(
    cube: tuple[str, xarray.Dataset], tmp_path: Path
) -> None:
    """The result has the same bytes; `force` leaves nothing of another grid."""
    path, _ = cube
    whole, run = tmp_path / "whole.zarr", tmp_path / "run.zarr"
    names: Any = {"samples": ("lat", "lon"), "variables": "sst", **HERE}
    model = DPMeans(60.0, random_state=0, tol=0.0)

    def stop(number: int, *_: object) -> None:
        if number == 2:
            raise KeyboardInterrupt

    fit(path, whole, model, **names)
    with pytest.raises(KeyboardInterrupt):
        fit(path, run, model, on_step=stop, **names)
    fit(path, run, model, resume=True, **names)
    with xarray.open_zarr(run) as found, xarray.open_zarr(whole) as expected:
        assert found.label_map.identical(expected.label_map)
        assert found.cluster_centers.identical(expected.cluster_centers)
    turned = {**names, "samples": ("time", "lat", "lon")}
    fit(path, run, model, force=True, **turned)
    with xarray.open_zarr(run) as found:
        assert found.label_map.dims == ("time", "lat", "lon")
        assert found.time.dims == ("time",)


@pytest.mark.parametrize(
    ("names", "match"),
    [
        ({"samples": "latitude"}, r"no variable of data has the dimensions latitude: it has"),
        ({"samples": "lat", "features": "time", "variables": "sst"}, r"also has the dimensions 'lon'"),
        ({"samples": "lat", "variables": "SST"}, r"variables names 'SST', data has .*sst \(time, lat, lon\)"),
        ({"samples": "x", "variables": "sst"}, r"'x', which is no dimension of data: it has 'time' \(4\)"),
        ({"samples": ("variable", "lat")}, r"variables can be features alone"),
        ({"variables": "sst"}, r"samples must name some of the dimensions of data"),
    ],
)  # fmt: skip
def test_wrong_names_are_told_those_that_there_are(
    cube: tuple[str, xarray.Dataset], names: dict[str, Any], match: str
) -> None:
    """Dimensions and variables."""
    with pytest.raises(InputError, match=match):
        as_source(CubePath(cube[0], **names), **HERE)


@pytest.mark.parametrize("names", [{"y", "x"}, iter(["y", "x"]), 3, ["y", 3]])
def test_names_of_dimensions_of_a_path_have_an_order(names: Any) -> None:
    for argument in ("samples", "features", "variables"):
        with pytest.raises(InputError, match=f"{argument} must be a name or a list of names, got"):
            CubePath("cube.zarr", **{argument: names})


def test_variables_of_several_dimensions_are_those_that_were_named(tmp_path: Path) -> None:
    """The others of the store are left out of the error."""
    sst = (NAMES, np.zeros((2, 3, 4)))
    made = xarray.Dataset(
        {"sst": sst, "mask": (NAMES[1:], sst[1][0]), "depth": (NAMES[1:], sst[1][0])}
    )
    path = written(made, tmp_path / "cube.zarr", (2, 3, 4), 3, {})
    named = CubePath(path, samples=NAMES[1:], variables=("sst", "mask"))
    with pytest.raises(
        InputError, match=r"sst \(.*\), mask \(lat, lon\): name variables with the same"
    ):
        as_source(named, **HERE)
    with pytest.raises(InputError, match=r"depth \(lat, lon\).*: name those to use in variables"):
        as_source(CubePath(path, samples=NAMES[1:]), **HERE)


def test_a_slab_beyond_the_memory_is_refused_with_ways_out(tmp_path: Path) -> None:
    """The sizes, another order of the samples, and the chunks to write."""
    values = np.zeros((2, 64, 4000), np.float32)
    made = xarray.Dataset({"sst": (NAMES, values)})
    path = written(made, tmp_path / "cube.zarr", (2, 64, 10), 3, {})
    with pytest.raises(
        InputError, match=r"2,048,000 bytes: more than 250,000.*lon,lat.*rechunk"
    ) as told:
        as_source(CubePath(path, ("lat", "lon"), "time"), threads=1, memory_limit=10**6)
    assert "{'lat': 7, 'lon': 4000}" in str(told.value)
    assert as_source(CubePath(path, ("lon", "lat"), "time"), threads=1, memory_limit=10**6)


@given(
    worker=st.integers(1, 10**10), threads=st.integers(1, 8), size=st.integers(0, 10**9),
    processes=st.booleans(),
)  # fmt: skip
def test_a_thread_can_read_what_the_refusal_names_the_memory_for(
    worker: int, threads: int, size: int, processes: bool
) -> None:
    """A quarter of its memory; of a worker process, its own memory and Dask's pause too."""
    held = Resources(threads, worker, worker, max(1, worker // threads), processes)
    thread = held.thread_memory_for(size) + 1
    n = worker // held.thread_memory
    enough = Resources(n, n * thread, n * thread, thread, processes)
    assert size <= enough.read_memory <= thread / 4
    assert not processes or n * enough.read_memory + WORKER_BYTES <= 0.8 * n * thread


def test_a_slab_that_would_have_dask_pause_the_worker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a worker stood still: 83 MB of rows in 600 MB."""
    made = xarray.Dataset({"sst": (NAMES, np.zeros((2, 64, 4000), np.float32))})
    path = CubePath(written(made, tmp_path / "cube.zarr", (2, 64, 10), 3, {}), ("lat", "lon"))
    for memory, refused in ((502_559_999, True), (502_560_000, False), (400_000_000, True)):
        held = Resources(1, memory, memory, memory, processes=True)
        monkeypatch.setattr(planning, "own_resources", lambda *_, held=held: held)
        if refused:
            with pytest.raises(
                InputError, match=r"2,048,000 bytes.*give a thread 502,560,000 bytes"
            ):
                as_source(path, threads=1)
        else:
            assert as_source(path, threads=1)


@pytest.mark.parametrize("sizes", [(2, 0, 3), (0, 2, 3)])
def test_a_cube_without_samples_or_features_is_refused(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """In a store and in memory; the dimension is named."""
    made = xarray.Dataset({"sst": (NAMES, np.zeros(sizes))})
    made.to_zarr(tmp_path / "cube.zarr", zarr_format=3, consolidated=False)
    match = f"has size 0 along '{NAMES[sizes.index(0)]}'"
    with pytest.raises(InputError, match=match):
        read(str(tmp_path / "cube.zarr"), ("lat", "lon"), "time")
    with pytest.raises(InputError, match=match):
        DPMeans(1.0).fit(made.sst, samples=("lat", "lon"))


def test_a_coordinate_of_one_value_that_is_zero_is_not_in_the_store(tmp_path: Path) -> None:
    """xarray writes no chunk of it; a lost chunk of more values is an error."""
    made = cube_of((1, 4, 5), missing=0.0).assign_coords(run=0)
    path = tmp_path / "cube.zarr"
    made.to_zarr(path, zarr_format=3, consolidated=False)
    assert not (path / "time/c").exists()
    assert not (path / "run/c").exists()
    names: dict[str, Any] = {"samples": ("lat", "lon"), "features": "time", "variables": "sst"}
    fit(str(path), tmp_path / "run.zarr", DPMeans(4.0, random_state=0), **HERE, **names)
    with xarray.open_zarr(tmp_path / "run.zarr") as found:
        assert found.time.values == made.time.values
        assert found.run == 0
    shutil.rmtree(path / "lon/c")
    with pytest.raises(CorruptStoreError, match=r"lon/c/0.*is missing"):
        as_source(CubePath(str(path), **names), **HERE)


def test_a_pass_reads_each_stored_byte_once_but_for_the_borders_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where samples run across chunks and each pass reads: at most 1.1 times."""
    from zarr.storage import LocalStore  # noqa: PLC0415

    monkeypatch.setattr("dask_dpmeans.sources.formats.cube_opening.RUN_BYTES", 2**14)
    made = cube_of((8, 240, 50), missing=0.2)[["sst"]]
    path = written(made, tmp_path / "cube.zarr", (3, 4, 20), 3, {})
    source = as_source(
        CubePath(path, ("lat", "lon"), "time"), threads=2, memory_limit=10**6, block_rows=256
    )
    assert not source.resident
    assert source.plan.n_shards > 1
    read_bytes: list[int] = []
    get = LocalStore.get

    async def counted(self: Any, key: str, *rest: Any) -> Any:
        found = await get(self, key, *rest)
        if "sst/c/" in key and found is not None:
            read_bytes.append(len(found))
        return found

    monkeypatch.setattr(LocalStore, "get", counted)
    source.map(lambda block: (block.rows[:, 0],), lambda start, answers: None)
    stored = sum(
        file.stat().st_size for file in (tmp_path / "cube.zarr/sst/c").rglob("*") if file.is_file()
    )
    assert stored <= sum(read_bytes) <= 1.1 * stored


def _first_run(path: str) -> None:
    place, names = Location.at(path), CubePath(path, ("lat", "lon"), "time", "sst")
    open_cube(names, place, "data", fill_missing=False, observed=False).first_rows(1)


def test_a_run_is_read_in_little_more_memory_than_its_own(tmp_path: Path) -> None:
    """In parts, of which no number is indexed by itself: that takes 24 bytes a number."""
    made = xarray.Dataset({"sst": (NAMES, np.ones((64, 64, 1024), np.float32))})
    path = written(made, tmp_path / "cube.zarr", (16, 64, 256), 3, {})
    _first_run(path)
    peak_memory(_first_run, path)  # loads packages
    assert peak_memory(_first_run, path) < made.sst.nbytes + 4 * PART_BYTES


@pytest.mark.parametrize(("memory", "ahead"), [(2 * 10**6, False), (8 * 10**6, True)])
def test_a_run_is_read_ahead_only_where_two_are_a_quarter_of_the_memory(
    tmp_path: Path, memory: int, ahead: bool
) -> None:
    """Runs of 320,000 bytes, with NaN in most samples."""
    values = np.full((20, 400, 400), np.nan, np.float32)
    values[:, ::3] = 1.0
    made = xarray.Dataset({"sst": (NAMES, values)})
    path = written(made, tmp_path / "cube.zarr", (20, 10, 40), 3, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask_dpmeans.sources.formats.cube_opening.RUN_BYTES", 1)
        found = as_source(CubePath(path, ("lat", "lon"), "time"), threads=1, memory_limit=memory)
    assert not found.resident
    assert [each.ahead for each in found.shards] == [ahead] * len(found.shards)


def test_a_dry_run_shows_the_read_factor_without_counting(
    cube: tuple[str, xarray.Dataset], tmp_path: Path
) -> None:
    """Its rows are all samples."""
    found = dry_run(
        CubePath(cube[0], ("lat", "lon"), "time", "sst"),
        tmp_path / "run.zarr",
        DPMeans(4.0),
        **HERE,
    )
    assert found.n_rows == 600
    assert any("stored chunks 1.00 times" in each for each in found.advice)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["sst", "lat"])
def test_a_chunk_that_would_unpack_to_gigabytes_is_refused(
    tmp_path: Path, name: str, version: int
) -> None:
    """Of variables and of coordinates."""
    made = cube_of((4, 6, 5), missing=0.0)[["sst"]]
    path = written(made, tmp_path / "cube.zarr", (4, 6, 5), version, {})
    meta = Path(path) / name / (".zarray" if version == 2 else "zarr.json")
    key = {2: {"sst": "0.0.0", "lat": "0"}, 3: {"sst": "c/0/0/0", "lat": "c/0"}}[version][name]
    if version == 2:
        packer = {"id": "zstd", "level": 1, "checksum": False}
        meta.write_text(json.dumps(json.loads(meta.read_text()) | {"compressor": packer}))
        (Path(path) / ".zmetadata").unlink()
    bomb = numcodecs.Zstd(1).encode(np.zeros(2**25))
    (Path(path) / name / key).write_bytes(bomb)
    with pytest.raises((CorruptStoreError, InputError), match=r"would unpack to 256\.00 MiB"):
        read(path, ("lat", "lon"), "time", "sst")


def test_a_missing_chunk_and_a_changed_cube_are_errors(cube: tuple[str, xarray.Dataset]) -> None:
    """A lost chunk is never read as the fill value."""
    path = CubePath(cube[0], ("lat", "lon"), "time", "sst")
    source = as_source(path, **HERE)
    chunk = Path(cube[0]) / "sst/c/0/0/0"
    content = chunk.read_bytes()
    chunk.write_bytes((Path(cube[0]) / "sst/c/0/1/0").read_bytes())
    with pytest.raises(CorruptStoreError, match="has changed"):
        source.cube[0:]
    chunk.write_bytes(content)
    chunk.unlink()
    with pytest.raises(CorruptStoreError, match="is missing"):
        as_source(path, **HERE)
