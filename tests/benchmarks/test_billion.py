"""The rows of the store are its parts, seconds add up, and the table has its lines.  Never a time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import billion
import numpy as np
import out_of_core
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

N, PART, CHUNK = 5_000, 2_048, 512
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=6)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are threads here."""

    def pool(workers: int, mp_context: object) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(workers)

    for module in (billion, out_of_core):
        monkeypatch.setattr(module, "ProcessPoolExecutor", pool)
    cluster = partial(LocalCluster, processes=False)
    monkeypatch.setattr(out_of_core, "LocalCluster", cluster)

    @contextmanager
    def connect(address: None, workers: int, *_: object) -> Iterator[Client]:
        with (
            cluster(workers, threads_per_worker=1, dashboard_address=":0") as own,
            Client(own) as it,
        ):
            yield it

    monkeypatch.setattr(billion, "connect", connect)


def test_the_store_has_the_rows_of_its_parts_and_is_written_once(tmp_path: Path) -> None:
    rows = billion.Rows(tmp_path / "rows.zarr", N, PART, CHUNK)
    rows.write()
    stored = zarr.open_array(rows.path, mode="r+")
    assert (stored.shape, stored.dtype) == ((N, 4), np.float32)
    assert (stored.chunks, stored.shards) == ((CHUNK, 4), (PART, 4))
    parts = [rows.part(start) for start in range(0, N, PART)]
    np.testing.assert_array_equal(stored[:], np.concatenate(parts))
    assert (parts[0] != parts[1]).all()
    stored[0] = 0.0
    rows.write()
    assert not stored[0].any()


def test_rows_lie_around_the_centers() -> None:
    rows = billion.Rows(Path(), PART, PART, CHUNK).part(0).astype(np.float64)
    squared = np.square(rows[:, np.newaxis] - billion.centers()).sum(axis=2)
    assert np.bincount(squared.argmin(axis=1), minlength=billion.KINDS).all()
    assert squared.min(axis=1).mean() == pytest.approx(billion.COLUMNS, rel=0.1)
    assert squared.min(axis=1).max() < billion.RADIUS


@given(SPANS, st.integers(0, 15), st.integers(16, 40))
def test_seconds_that_no_span_covers_are_counted_once(
    spans: list[tuple[int, int]], start: int, stop: int
) -> None:
    spans = [(begin, begin + length) for begin, length in spans]
    covered = {second for begin, end in spans for second in range(begin, end)}
    wanted = len(set(range(start, stop)) - covered)
    assert billion.uncovered(spans, start, stop) == wanted


def test_the_table_has_its_lines_and_the_stores_are_gone(tmp_path: Path) -> None:
    sizes = ["--rows", str(N), "--part-rows", str(PART), "--memory", "16000000000"]
    options = [str(tmp_path), *sizes, "--only", "radius", "--repeats", "1"]
    result = CliRunner().invoke(billion.main, options, catch_exceptions=False)
    cells = [line.strip().split("  ") for line in result.stdout.splitlines()]
    fitted = [
        "rows a second of a pass",
        "bytes read",
        "memory",
        "coordinator, processor",
        "coordinator, no worker has a task",
    ]
    assert [each[0] for each in cells] == [
        "n=5,000 d=4, float32, 2 workers of 16 GB",
        "stored",
        "reading and summing",
        "pass",
        "pass / reading and summing",
        "processor, pass",
        "radius",
        *fitted,
    ]
    assert not list(tmp_path.iterdir())


def test_the_price_of_the_search_makes_the_kinds_clusters() -> None:
    n = 2_000
    rows = billion.Rows(Path(), n, PART, CHUNK).part(0)
    assert billion.fits(n, 1e-4)["search"].fit(rows).n_clusters_ == billion.KINDS
