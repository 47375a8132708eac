"""The parts of the store are what they say, and the tables have their lines.  Never a time."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import shapes_out_of_core as store
import zarr
from click.testing import CliRunner
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_rand_score

SIZE = 1_800


def test_parts_have_nine_clusters_that_lie_apart() -> None:
    rows, labels = store.first_rows(5 * SIZE, SIZE)
    assert np.bincount(labels).tolist() == [SIZE // 9 * 5] * 9
    neighbors = cKDTree(rows).query(rows, 2)[1][:, 1]
    assert np.mean(labels[neighbors] == labels) > 0.999


def test_the_store_has_the_rows_of_its_parts(tmp_path: Path) -> None:
    n = 3 * SIZE - 700
    stored = store.stored(tmp_path / "rows.zarr", n, SIZE)
    assert (stored.shape, stored.dtype) == ((n, 2), np.float32)
    np.testing.assert_array_equal(stored[:], store.first_rows(n, SIZE)[0].astype(np.float32))
    assert (stored[:SIZE] != stored[SIZE : 2 * SIZE]).all()


def test_the_agreement_of_parts_is_that_of_all_rows(tmp_path: Path) -> None:
    n = 3 * SIZE - 700
    truth = store.first_rows(n, SIZE)[1]
    labels = np.where(np.random.default_rng(0).random(n) < 0.2, -1, truth // 2).astype(np.int32)
    found = store.agreement(zarr.create_array(tmp_path / "labels", data=labels), SIZE)
    assert found == pytest.approx(adjusted_rand_score(truth, labels))


def test_the_tables_have_their_lines_and_the_stores_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FEW_ROWS", 90)
    sizes = ["--rows", "3600", "--part-rows", str(SIZE), "--first", "2000"]
    options = [str(tmp_path), *sizes, "--workers", "0", "--tol", "0.1"]
    result = CliRunner().invoke(store.main, options, catch_exceptions=False)
    cells = [line.strip().split("  ") for line in result.stdout.splitlines()]
    installed = [each for each in store.PEERS if not each.endswith(" hdbscan")]
    if find_spec("hdbscan") is not None:
        installed = list(store.PEERS)
    assert [each[0] for each in cells] == [
        "n=3,600 d=2, float32, tol 0.1, threads",
        store.OURS,
        store.PLAIN,
        "time, beside the plain fit",
        "processor time, beside the plain fit",
        "more passes",
        "the same micro-centers",
        "adjusted Rand index",
        "HDBSCAN in memory",
        *[f"{each}, 3,600 rows" for each in installed],
    ]
    assert float(next(filter(None, cells[7][1:]))) > 0.8
    assert not list(tmp_path.iterdir())


def test_a_peer_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    (name, method), *_ = store.PEERS.items()
    monkeypatch.setattr(store, "PEERS", {name: method})
    (line,) = store.peer_lines(50_000, SIZE, 50_000, 0.0)
    assert (line.what, line.value) == (f"{name}, 50,000 rows", "not within 0 processor seconds")
