"""Images of OME-Zarr by path: pixels as samples, channels as features, one level of resolution."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.cli import main
from dask_dpmeans.errors import InputError

RNG = np.random.default_rng(0)
KINDS = RNG.integers(3, size=(16, 20))
PIXELS = (60 * KINDS + RNG.integers(0, 9, (3, 16, 20))).astype(np.uint8)
PIXELS[:, KINDS == 0] = 0  # the fill value, which is no gap


def image(path: Path, version: str, levels: int = 2, folder: str = "", **more: Any) -> Path:
    """Write an image of some levels, each of half the resolution."""
    group = zarr.create_group(path, zarr_format=2 if version == "0.4" else 3)
    datasets = []
    for level in range(levels):
        values, name = PIXELS[:, :: 2**level, :: 2**level], f"{folder}{level}"
        keys: Any = {"name": "v2", "separator": "/"} if version == "0.4" else None
        names = None if version == "0.4" else ("c", "y", "x")
        group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(1, 8, 8), fill_value=0,
            chunk_key_encoding=keys, dimension_names=names, config={"write_empty_chunks": True},
        )[...] = values  # fmt: skip
        scale = {"type": "scale", "scale": [1.0, 0.5 * 2**level, 0.5 * 2**level]}
        moved = {"type": "translation", "translation": [0.0, 10.0, 0.0]}
        datasets.append({"path": name, "coordinateTransformations": [scale, moved]})
    space = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    axes = [{"name": "c", "type": "channel"}, *space]
    told = {
        "multiscales": [{"version": version, "axes": axes, "datasets": datasets}],
        "omero": {"channels": [{"label": name} for name in ("dna", "actin", "tubulin")]},
        **more,
    }
    group.attrs.update(told if version == "0.4" else {"ome": {"version": version, **told}})
    return path


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("folder", ["", "scale/"])
def test_a_level_gives_the_labels_of_its_flattened_pixels(
    tmp_path: Path, version: str, folder: str
) -> None:
    path = image(tmp_path / "image.zarr", version, folder=folder)
    for level in range(2):
        pixels = PIXELS[:, :: 2**level, :: 2**level]
        run = tmp_path / f"run{level}"
        arguments = ["--penalty", "900", "--seed", "0", "--samples", "y,x", "--features", "c"]
        call = ["fit", f"{path}/{folder}{level}", str(run), *arguments]
        result = CliRunner().invoke(main, call)
        assert result.exit_code == 0, result.output
        expected = DPMeans(900.0, random_state=0).fit(pixels.reshape(3, -1).T)
        found = xarray.open_zarr(run, consolidated=False)
        np.testing.assert_array_equal(found.label_map.values.ravel(), expected.labels_)
        assert found.cluster_centers.values.tobytes() == expected.cluster_centers_.tobytes()
        assert found.cluster_centers.feature.values.tolist() == ["dna", "actin", "tubulin"]
        step = 0.5 * 2**level
        assert found.label_map.y.values.tolist() == [10 + step * n for n in range(16 >> level)]
        assert found.label_map.x.attrs["units"] == "micrometer"
        assert [found.label_map[axis].attrs.get("positive") for axis in "xy"] == [None, "down"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_several_levels_are_listed_and_one_is_taken(tmp_path: Path, version: str) -> None:
    path = image(tmp_path / "image.zarr", version)
    listed = (
        r"give one of its levels, \S+image.zarr/0 \(c 3, y 16, x 20\), \S+/1 \(c 3, y 8, x 10\)"
    )
    with pytest.raises(InputError, match=listed):
        fit(path, tmp_path / "run", DPMeans(900.0), features="c")
    with pytest.raises(InputError, match=f"{listed}; then name the dimensions that are features"):
        fit(path, tmp_path / "run", DPMeans(900.0))
    one = image(tmp_path / "one.zarr", version, levels=1)
    assert fit(one, tmp_path / "run", DPMeans(900.0), features="c").n_clusters_ == 3


def test_transformations_and_channels_that_are_not_known_make_no_coordinates(
    tmp_path: Path,
) -> None:
    steps = [{"type": "affine", "path": "matrix"}]
    names = {"channels": [{"label": "a"}, {"label": "a"}, {}]}
    path = image(tmp_path / "image.zarr", "0.5", levels=1, omero=names)
    told = zarr.open_group(path).attrs.asdict()
    told["ome"]["multiscales"][0]["coordinateTransformations"] = steps
    zarr.open_group(path).attrs.update(told)
    found = fit(path, tmp_path / "run", DPMeans(900.0), samples=("y", "x"))
    assert list(found.feature_names_in_) == ["c=0", "c=1", "c=2"]
    assert "x" not in xarray.open_zarr(tmp_path / "run", consolidated=False).coords


def test_an_array_that_is_no_image_has_no_dimensions(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr/rows", data=PIXELS)
    with pytest.raises(InputError, match="is one Zarr array without names of dimensions"):
        fit(tmp_path / "a.zarr/rows", tmp_path / "run", DPMeans(900.0), features="c")
