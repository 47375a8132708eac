"""The stores have the same rows, and the table has its lines.  Never a time."""

from pathlib import Path

import cubes_out_of_core as cubes
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner


def test_the_flat_store_has_the_places_of_the_sea(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cubes, "CHUNK", (5, 3, 4))
    stores = cubes.Stores(tmp_path, cubes.Shape(6, 12, time=12))
    stores.write()
    with xarray.open_zarr(stores.cube.path, consolidated=False) as found:
        rows = found.sst.transpose("lat", "lon", "time").values.reshape(-1, 12)
    sea = ~np.isnan(rows).any(axis=1)
    assert np.isnan(rows[~sea]).all()
    assert 0 < (~sea).sum() < sea.sum()
    np.testing.assert_array_equal(zarr.open_array(stores.flat)[:], rows[sea])
    assert stores.stored_bytes == sum(
        each.stat().st_size for each in Path(stores.cube.path, "sst/c").rglob("*") if each.is_file()
    )


@pytest.mark.timeout(300)
def test_the_table_has_its_lines_and_the_stores_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cubes, "CHUNK", (10, 3, 20))
    monkeypatch.setattr(cubes.Shape, "of", lambda gigabytes: cubes.Shape(12, 40, time=30))
    options = [str(tmp_path), "--workers", "1", "--memory", "2GB", "--repeats", "1"]
    result = CliRunner().invoke(cubes.main, options, catch_exceptions=False)
    title, *lines = result.stdout.splitlines()
    assert title == "30 x 12 x 40, float32, 1 workers of 2GB"
    cells = [line.strip().split("  ") for line in lines]
    assert [each[0] for each in cells] == [
        "stored",
        "bytes read in a pass / stored",
        cubes.CUBE,
        cubes.FLAT,
        f"{cubes.CUBE} / {cubes.FLAT}",
        f"processor, {cubes.CUBE}",
        f"processor, {cubes.FLAT}",
        "processor, cube / rows",
        "fit of the cube",
        "fit of the rows",
        "the same bytes",
    ]
    assert cells[-1][-1].strip() == "met"
    assert not list(tmp_path.iterdir())
