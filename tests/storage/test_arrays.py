"""Chunks and arrays of this package in the place of others are errors that name them."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

from dask_dpmeans import (
    CorruptStoreError,
    DPMeans,
    InputError,
    KernelDPMeans,
    SpectralDPMeans,
    fit,
    load,
    predict,
)
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.selection.metrics import adjusted_rand_score
from dask_dpmeans.selection.penalty import penalty_path, read_path, write_path
from dask_dpmeans.selection.tree import cluster_tree, read_tree, write_tree
from dask_dpmeans.sources import layout
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.arrays import create
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.writer import Writer

BLOCK_ROWS = 64
ROWS = np.random.default_rng(0).uniform(0, 10, (600, 2))
MISPLACED = (
    r"{}: a chunk does not match its checksum: {} is damaged, or not the one that was written there"
)


class StopError(Exception):
    """Ends a fit after a step."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of all kinds, and a run of other rows of the same shape."""
    folder = tmp_path_factory.mktemp("made")
    for name, rows in (("run", ROWS), ("other", ROWS[::-1] + 1.0)):
        fit(rows, folder / name, DPMeans(9.0, random_state=0), block_rows=BLOCK_ROWS, threads=1)
    fit(
        ROWS,
        folder / "kernel",
        KernelDPMeans(0.9, gamma=0.05, random_state=0),
        block_rows=BLOCK_ROWS,
        threads=1,
    )
    nearest = SpectralDPMeans(0.9, affinity="nearest_neighbors", n_neighbors=5, random_state=0)
    fit(ROWS[:200], folder / "spectral", nearest, block_rows=BLOCK_ROWS)
    predict(folder / "run", ROWS, folder / "out", block_rows=BLOCK_ROWS, threads=1)
    write_path(penalty_path(ROWS, [5.0, 9.0, 20.0], random_state=0), folder / "path")
    write_tree(cluster_tree(load(folder / "run"), [50.0, 500.0]), folder / "tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask_dpmeans.api.synthetic.PART_ROWS", 256)
        write_synthetic(Synthetic("blobs", 1000, 2, 3, seed=0), folder / "synth")
    return folder


@pytest.fixture
def at(made: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


@contextmanager
def exchanged(one: Path, other: Path) -> Iterator[None]:
    """Two files or folders in each other's place, for a while."""
    aside = one.with_name("aside")

    def exchange() -> None:
        one.rename(aside)
        other.rename(one)
        aside.rename(other)

    exchange()
    try:
        yield
    finally:
        exchange()


def read_labels(run: Path) -> bytes:
    return np.asarray(load(run).labels_.compute()).tobytes()


def test_any_two_chunks_of_labels_that_were_exchanged_are_known(at: Path) -> None:
    chunks = sorted((at / "run/labels/c").iterdir())
    assert len(chunks) == 10
    for one, other in combinations(chunks, 2):
        with exchanged(one, other):
            model = load(at / "run")
            with pytest.raises(
                CorruptStoreError, match=MISPLACED.format("labels", f"c/({one.name}|{other.name})")
            ):
                model.labels_.compute()
            for number in (int(one.name), int(other.name)):
                part = model.labels_[number * BLOCK_ROWS + 3 : number * BLOCK_ROWS + 5]
                with pytest.raises(
                    CorruptStoreError, match=MISPLACED.format("labels", f"c/{number}")
                ):
                    part.compute()
    read_labels(at / "run")


def test_a_part_of_the_labels_whose_chunks_are_in_place_is_read(at: Path) -> None:
    wanted = load(at / "run").labels_.compute()
    part = slice(3 * BLOCK_ROWS + 7, 500)
    with exchanged(at / "run/labels/c/1", at / "run/labels/c/2"):
        np.testing.assert_array_equal(load(at / "run").labels_[part], wanted[part])


def test_a_chunk_or_all_labels_of_another_run_of_the_same_shape_are_known(at: Path) -> None:
    for name in ("labels/c/4", "labels/c", "labels", "digests/labels", "digests"):
        with (
            exchanged(at / "run" / name, at / "other" / name),
            pytest.raises(CorruptStoreError, match="labels"),
        ):
            read_labels(at / "run")


def test_a_chunk_of_labels_of_an_earlier_state_of_the_same_run_is_known(tmp_path: Path) -> None:
    run, how = tmp_path / "run", {"block_rows": BLOCK_ROWS, "threads": 1}
    with pytest.warns(UserWarning, match="max_iter=1"):
        fit(ROWS, run, DPMeans(9.0, max_iter=1, random_state=0), **how)
    before = (run / "labels/c/3").read_bytes()
    fit(ROWS, run, DPMeans(9.0), resume=True, **how)
    assert (run / "labels/c/3").read_bytes() != before
    (run / "labels/c/3").write_bytes(before)
    with pytest.raises(CorruptStoreError, match=MISPLACED.format("labels", "c/3")):
        read_labels(run)


def test_a_small_array_that_claims_many_chunks_is_refused_before_they_are_read(
    tmp_path: Path,
) -> None:
    place = Location(str(tmp_path)) / "small"
    content = arrays.write(place, np.arange(6.0))
    told = json.loads((tmp_path / "small/zarr.json").read_text())
    (tmp_path / "small/zarr.json").write_text(json.dumps(told | {"shape": [6 * 10**9]}))
    with pytest.raises(CorruptStoreError, match="has 1,000,000,000 chunks, but was written in one"):
        arrays.read(place, content)


READS: dict[str, Callable[[Path], Any]] = {
    "run": load,
    "kernel": load,
    "path": read_path,
    "tree": read_tree,
}
UNREAD = {"tree": {"inertia", "objective"}}
"""Arrays that are for other readers alone."""


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("what", ["c", ""])
def test_any_two_arrays_of_the_same_shape_that_were_exchanged_are_known(
    at: Path, kind: str, what: str
) -> None:
    """Their chunks, or the folders of the arrays; those with the same bytes cannot be told, nor need they be."""
    group, tried = zarr.open_group(at / kind, mode="r"), 0
    arrays = {
        name: array
        for name, array in group.arrays()
        if name not in {"labels", *UNREAD.get(kind, ())}
    }
    for one, other in combinations(sorted(arrays), 2):
        first, second = arrays[one], arrays[other]
        alike = first.shape == second.shape and first.dtype == second.dtype
        if not alike or first[...].tobytes() == second[...].tobytes():
            continue
        tried += 1
        known = pytest.raises(
            CorruptStoreError, match=rf"({one}|{other}) does not hold what was written there"
        )
        with exchanged(at / kind / one / what, at / kind / other / what), known:
            READS[kind](at / kind)
    assert tried


def test_an_embedding_that_was_written_over_is_known(at: Path) -> None:
    array = zarr.open_array(at / "spectral/embedding", mode="r+")
    array[:] = -array[:]  # whole, with good checksums
    with pytest.raises(CorruptStoreError, match=MISPLACED.format("embedding", r"c/\d/0")):
        np.asarray(load(at / "spectral").embedding_)


@pytest.mark.parametrize(("one", "other"), [("label", "beyond"), ("squared_distance", "label")])
def test_predictions_that_lie_in_the_place_of_others_are_known_as_they_are_read(
    at: Path, one: str, other: str
) -> None:
    with exchanged(at / f"out/{one}/c/2", at / f"out/{one}/c/5"):
        with pytest.raises(CorruptStoreError, match=MISPLACED.format(f"out/{one}", r"c/\d")):
            DPMeans(9.0).fit(ROWS, sample_weight=zarr.open_array(at / f"out/{one}"))
        with pytest.raises(CorruptStoreError, match=MISPLACED.format(f"out/{one}", r"c/\d")):
            fit(ROWS, at / "fitted", DPMeans(9.0), sample_weight=str(at / f"out/{one}"))
    with (
        exchanged(at / "out" / one, at / "out" / other),
        pytest.raises(CorruptStoreError, match="another array than"),
    ):
        fit(ROWS, at / "fitted", DPMeans(9.0), sample_weight=str(at / f"out/{one}"))
    assert not (at / "fitted").exists()


def test_labels_that_lie_in_the_place_of_others_are_known_as_they_are_compared(at: Path) -> None:
    same = adjusted_rand_score(str(at / "run/labels"), str(at / "out/label"))
    assert same == 1.0
    with (
        exchanged(at / "out/label/c/0", at / "out/label/c/1"),
        pytest.raises(CorruptStoreError, match="out/label"),
    ):
        adjusted_rand_score(str(at / "run/labels"), str(at / "out/label"))


@pytest.mark.parametrize("given", ["path", "array", "member"])
@pytest.mark.parametrize("resident", [True, False])
def test_chunks_of_a_synthetic_store_that_were_exchanged_are_known(
    at: Path, given: str, resident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.4 if resident else 0.0)
    data = {
        "path": lambda: str(at / "synth/rows"),
        "array": lambda: zarr.open_array(at / "synth/rows"),
        "member": lambda: zarr.open_group(at / "synth")["rows"],
    }[given]
    fit(data(), at / "before", DPMeans(60.0), threads=2, block_rows=BLOCK_ROWS)
    known = pytest.raises(
        CorruptStoreError, match=MISPLACED.format("synth(/rows)?", r"(rows/)?c/[12]/0")
    )
    with exchanged(at / "synth/rows/c/1/0", at / "synth/rows/c/2/0"), known:
        fit(data(), at / "fitted", DPMeans(60.0), threads=2, block_rows=BLOCK_ROWS)


def test_workers_write_and_compare_digests(
    at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        how = {"client": client, "block_rows": BLOCK_ROWS}
        fit(at / "synth/rows", tmp_path / "run", DPMeans(60.0, random_state=0), **how)
        fit(
            at / "synth/rows",
            tmp_path / "again",
            DPMeans(60.0, random_state=0),
            threads=1,
            block_rows=BLOCK_ROWS,
        )
        assert read_labels(tmp_path / "run") == read_labels(tmp_path / "again")
        tables = [
            zarr.open_array(tmp_path / name / "digests/labels")[:].tobytes()
            for name in ("run", "again")
        ]
        assert tables[0] == tables[1]
        known = pytest.raises(CorruptStoreError, match=MISPLACED.format("synth/rows", "c/[12]/0"))
        with exchanged(at / "synth/rows/c/1/0", at / "synth/rows/c/2/0"), known:
            predict(tmp_path / "run", at / "synth/rows", tmp_path / "out", **how)


def test_steps_in_the_place_of_others_are_known(tmp_path: Path) -> None:
    method, how = DPMeans(9.0, random_state=0), {"block_rows": BLOCK_ROWS, "threads": 1}

    def stop(number: int, *_: Any) -> None:
        if number == 3:
            raise StopError

    for name in ("run", "other"):
        with pytest.raises(StopError):
            fit(ROWS, tmp_path / name, method, on_step=stop, **how)
    steps = tmp_path / "run/steps"
    for one, other in (
        (steps / "000003/history/c", steps / "000002/history/c"),
        (steps / "000003/history", steps / "000002/history"),
        (steps / "000003/state", steps / "000002/state"),
        (steps / "000003", steps / "000002"),
        (steps / "000003/history/c", tmp_path / "other/steps/000003/history/c"),
    ):
        with exchanged(one, other), pytest.raises(CorruptStoreError, match="steps/00000"):
            fit(ROWS, tmp_path / "run", method, resume=True, **how)
    fit(ROWS, tmp_path / "run", method, resume=True, **how)


def test_an_array_of_an_output_that_has_not_finished_is_no_input(at: Path) -> None:
    def stop(*_: Any) -> None:
        raise StopError

    with pytest.raises(StopError):
        fit(ROWS, at / "run", DPMeans(5.0), force=True, on_step=stop)
    shutil.copytree(at / "other/labels", at / "run/labels")
    with pytest.raises(InputError, match="an output that is not finished: make it again"):
        fit(ROWS, at / "fitted", DPMeans(9.0), sample_weight=at / "run/labels")


def test_arrays_of_others_beside_ours_and_alone_are_read_as_they_are(at: Path) -> None:
    zarr.create_array(at / "synth/mine", data=ROWS, chunks=(100, 2))
    wanted = DPMeans(9.0).fit(ROWS).objective_
    assert fit(at / "synth/mine", at / "one", DPMeans(9.0)).objective_ == wanted
    (at / "loose").mkdir()
    (at / "loose/zarr.json").write_text("no JSON")
    zarr.create_array(at / "loose/mine", data=ROWS, chunks=(100, 2))
    assert fit(at / "loose/mine", at / "two", DPMeans(9.0)).objective_ == wanted
    with exchanged(at / "loose/mine/c/0", at / "loose/mine/c/1"):  # of codecs' checksums none tells
        fit(at / "loose/mine", at / "three", DPMeans(9.0))


@pytest.mark.parametrize("shape", [(10,), (10, 3), (1,), (8, 1)])
def test_a_writer_says_the_digests_of_each_chunk_in_order(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    made = [
        create(Location.at(tmp_path / name), shape, np.dtype(np.float64), None, 4) for name in "ab"
    ]
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    whole = Writer(made)(0, (values, values + 1))
    starts = range(0, shape[0], 4)
    parts = [
        Writer(made)(start, (values[start : start + 4], values[start : start + 4] + 1))
        for start in starts
    ]
    assert whole.shape == (-(-shape[0] // 4), 2, 16)
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert len({each.tobytes() for each in whole.reshape(-1, 16)}) == whole.size // 16
    assert Writer([np.empty(shape)])(0, (values,)).shape == (0, 1, 16)
