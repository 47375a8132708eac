"""Weights by the cosine of the latitude of cubes in stores: those of the cube in memory, to the byte."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from dask.distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli import main
from dask_dpmeans.errors import InputError
from dask_dpmeans.report import report
from dask_dpmeans.selection.penalty import penalty_for
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.formats.cube import CubePath


def cube_of(sizes: tuple[int, ...], seed: int, curved: bool, gaps: bool) -> xarray.Dataset:
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=3.0, size=sizes)
    if gaps:
        values[:, rng.random(sizes[1:]) < 0.3] = np.nan
        values[:, 0, 0] = 1.0
    latitudes = rng.uniform(-90, 90, sizes[1:] if curved else sizes[1])
    dims = ("y", "x") if curved else "y"
    coords = {"nav_lat": (dims, latitudes, {"standard_name": "latitude"})}
    return xarray.Dataset({"t": (("time", "y", "x"), values)}, coords)


def written(cube: xarray.Dataset, path: Path, chunks: tuple[int, ...] = (1, 7, 9)) -> None:
    """Write a cube, all chunks of it."""
    encoding = {"t": {"chunks": chunks}}
    cube.to_zarr(
        path, zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True
    )


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 12), st.integers(1, 12)),
    chunks=st.tuples(*[st.integers(1, 4)] * 3),
    order=st.permutations(["y", "x"]),
    curved=st.booleans(),
    gaps=st.booleans(),
    streams=st.booleans(),
    seed=st.integers(0, 99),
)
def test_weights_of_a_store_are_those_of_the_cube_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: tuple[int, ...],
    chunks: tuple[int, ...],
    order: list[str],
    curved: bool,
    gaps: bool,
    streams: bool,
    seed: int,
) -> None:
    cube, path = cube_of(sizes, seed, curved, gaps), tmp_path_factory.mktemp("cube") / "c.zarr"
    written(cube, path, chunks)
    limit: Any = {"threads": 1, "memory_limit": 11_000 if streams else 2**30}
    source = as_source(CubePath(str(path), tuple(order)), "latitude", block_rows=8, **limit)
    assert source.resident or streams
    found = [
        block.weights
        for shard, blocks in source.plan.pieces(range(source.plan.n_blocks))
        for block in source.shards[shard].blocks(source.prepare, 8, blocks)
    ]
    rows = cube.t.transpose(*order, "time").values.reshape(-1, sizes[0])
    degrees = cube.nav_lat.broadcast_like(cube.t[0]).transpose(*order).values.reshape(-1)
    expected = np.cos(np.deg2rad(degrees[~np.isnan(rows).any(axis=1)])).clip(0.0)
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("curved", [False, True])
def test_a_run_by_latitude_has_the_bytes_of_the_cube_in_memory(
    tmp_path: Path, curved: bool
) -> None:
    cube, path, run = cube_of((3, 20, 30), 0, curved, True), tmp_path / "c.zarr", tmp_path / "run"
    written(cube, path)
    names: Any = {"samples": ("y", "x"), "features": "time"}
    expected = DPMeans(9.0).fit(cube.t, sample_weight="latitude", **names)
    arguments = ["--samples", "y,x", "--weights", "latitude", "--penalty", "9"]
    result = CliRunner().invoke(main, ["fit", str(path), str(run), *arguments])
    assert result.exit_code == 0, result.output
    found = open_run(run)
    assert found.model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert found.model.cluster_weights_.tobytes() == expected.cluster_weights_.tobytes()
    assert found.result.manifest.sources["sample_weight"] == "latitude"
    report(run, tmp_path / "report.html")
    dry = CliRunner().invoke(main, ["fit", str(path), "none", *arguments, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    one = penalty_for(path, 3, sample_weight="latitude", random_state=0, **names)
    assert one == penalty_for(cube.t, 3, sample_weight="latitude", random_state=0, **names)


def test_a_cluster_reads_latitudes_in_its_tasks(tmp_path: Path) -> None:
    cube, path = cube_of((3, 20, 30), 0, True, True), tmp_path / "c.zarr"
    written(cube, path)
    names: Any = {"samples": ("y", "x"), "sample_weight": "latitude"}
    here = fit(path, tmp_path / "here", DPMeans(9.0), **names)
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        there = fit(path, tmp_path / "there", DPMeans(9.0), client=client, **names)
    assert there.cluster_centers_.tobytes() == here.cluster_centers_.tobytes()
    assert there.cluster_weights_.tobytes() == here.cluster_weights_.tobytes()


def test_a_cube_without_latitudes_says_so(tmp_path: Path) -> None:
    cube = cube_of((3, 4, 5), 0, False, False).drop_vars("nav_lat")
    cube.to_zarr(tmp_path / "c.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(InputError, match="no coordinate is a latitude along the samples: none"):
        fit(
            tmp_path / "c.zarr",
            tmp_path / "run",
            DPMeans(9.0),
            samples=("y", "x"),
            sample_weight="latitude",
        )
