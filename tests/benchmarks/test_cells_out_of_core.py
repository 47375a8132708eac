"""The table has its lines, and a file that has changed is named.  Never a time."""

from pathlib import Path

import cells_out_of_core as cells
import pytest
from click.testing import CliRunner


@pytest.mark.timeout(300)
def test_the_table_has_its_lines_and_the_stores_are_gone(tmp_path: Path) -> None:
    options = [str(tmp_path), "--cells", "2000", "--workers", "1"]
    result = CliRunner().invoke(cells.main, options, catch_exceptions=False)
    title, *lines = result.stdout.splitlines()
    assert title == "2,000 x 50, float32, 1 workers of 2GB"
    found = [line.strip().split("  ") for line in lines]
    assert [each[0] for each in found] == [
        "stored",
        "fit",
        "memory of a worker",
        "memory of the coordinator",
        "other files that have changed",
        "obs in anndata",
        "pairs of label and kind",
    ]
    assert [each[-1].strip() for each in found[-3:]] == ["met"] * 3
    assert not list(tmp_path.iterdir())


def test_files_beside_the_result_that_change_are_named() -> None:
    before = {"zarr.json": "a", "obs/zarr.json": "a", "X/c/0": "a", "uns/other": "a", "gone": "a"}
    after = {
        "zarr.json": "b",
        "obs/zarr.json": "b",
        "X/c/0": "b",
        "uns/other": "a",
        "obs/dpmeans/codes/c/0": "b",
        "obs/dpmeans2/zarr.json": "b",
    }
    assert cells.changed(before, after) == ["X/c/0", "gone", "obs/dpmeans2/zarr.json"]
