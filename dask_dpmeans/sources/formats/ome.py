"""Images of OME-Zarr (0.4 in Zarr 2, 0.5 in Zarr 3) as cubes: one level of resolution each.

The metadata of the group around the levels name the axes, and say where the pixels are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.lazy_modules import checked_store, zarr
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location

IMAGE = "image"
"""Name of the variable of a level."""
DEEPEST = 3
"""Parts of the path of a level in the group of its image, at most."""


@dataclass(frozen=True)
class Level:
    """One level of an image, as the metadata of the image describe it."""

    path: str
    """In the group of the image."""
    axes: tuple[str, ...]
    units: tuple[str | None, ...]
    scale: tuple[float, ...]
    """Distance of neighboring pixels along each axis; empty if it is not told."""
    offset: tuple[float, ...]
    """Where the first pixel is; empty if it is not told."""
    channels: tuple[str, ...] = ()
    """Names of the channels, if they are told and differ."""

    def coords(self, shape: Sequence[int]) -> dict[str, Any]:
        """Return the coordinates of an array of this shape, as xarray takes them.

        Lines of an image are counted from the top: ``y`` is "positive down", in words of CF.
        """
        found: dict[str, Any] = {}
        for number, (axis, size) in enumerate(zip(self.axes, shape, strict=True)):
            if axis == "c":
                if len(self.channels) == size:
                    found[axis] = (axis, np.array(self.channels))
                continue
            if self.scale:
                unit = self.units[number]
                places: Raw = self.offset[number] + self.scale[number] * np.arange(size)
                attrs = {} if unit is None else {"units": unit}
                found[axis] = (axis, places, attrs | ({"positive": "down"} if axis == "y" else {}))
        return found


def chosen_level(place: Location) -> Location:
    """Return the place of the only level of an image; other places as they are.

    An image of several levels is an error that lists these.
    """
    node = checked_store.open_node(place)
    if isinstance(node, zarr.Array):
        return place
    levels = list(_levels(node.attrs.asdict()))
    if len(levels) == 1:
        return place / levels[0].path
    if levels:
        raise InputError(_choice(node, levels, place.shown))
    return place


def image_hint(group: "zarr.Group", path: str) -> str | None:
    """Return how to cluster the pixels of an image; None for a group that is no image."""
    levels = list(_levels(group.attrs.asdict()))
    if not levels:
        return None
    advice = "name the dimensions that are features, such as features='c' or --features c"
    return f"{_choice(group, levels, path)}; then {advice}"


def _choice(group: "zarr.Group", levels: list[Level], path: str) -> str:
    """Return the levels of an image for an error."""
    listed = []
    for level in levels:
        shape = getattr(group.get(level.path), "shape", ())
        sizes = ", ".join(f"{axis} {n:,}" for axis, n in zip(level.axes, shape, strict=False))
        listed.append(f"{path}/{level.path} ({sizes})")
    return f"{path} is an OME-Zarr image: give one of its levels, {', '.join(listed)}"


def level_at(place: Location) -> "tuple[zarr.Group, str, Level] | None":
    """Return the group around the array of a level, its name there, and what it is.

    None for an array that is no level of an image.
    """
    parts = place.url.rstrip("/").split("/")
    for depth in range(1, min(DEEPEST, len(parts) - 1) + 1):
        around = replace(place, url="/".join(parts[:-depth]))
        try:
            group = checked_store.open_node(around)
        except (zarr.errors.NodeNotFoundError, FileNotFoundError):
            continue
        if isinstance(group, zarr.Array):
            continue
        path = "/".join(parts[-depth:])
        for level in _levels(group.attrs.asdict()):
            if level.path == path:
                inner = checked_store.open_node(replace(place, url="/".join(parts[:-1])))
                if isinstance(inner, zarr.Group):
                    return inner, parts[-1], level
    return None


def _levels(attributes: Mapping[str, Any]) -> Iterator[Level]:
    metadata = attributes.get("ome", attributes)
    channels = _channels(metadata.get("omero"))
    for image in metadata.get("multiscales", ()):
        axes = [each if isinstance(each, dict) else {"name": each} for each in image["axes"]]
        names = tuple(str(each["name"]) for each in axes)
        units = tuple(each.get("unit") for each in axes)
        for level in image["datasets"]:
            steps = [
                *level.get("coordinateTransformations", ()),
                *image.get("coordinateTransformations", ()),
            ]
            scale, offset = _scale_and_offset(steps, len(names))
            yield Level(str(level["path"]), names, units, scale, offset, channels)


def _scale_and_offset(
    steps: Sequence[Mapping[str, Any]], n_axes: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the scale and the offset of some transformations; nothing if there are others."""
    scale, offset = np.ones(n_axes), np.zeros(n_axes)
    for step in steps:
        values = np.asarray(step.get(step.get("type", ""), ()), float)
        if step.get("type") not in ("scale", "translation") or values.shape != (n_axes,):
            return (), ()
        if step["type"] == "scale":
            scale, offset = scale * values, offset * values
        else:
            offset = offset + values
    if not steps:
        return (), ()
    return tuple(scale.tolist()), tuple(offset.tolist())


def _channels(metadata: Any) -> tuple[str, ...]:
    """Return the names of the channels; nothing if some have none or two have one."""
    listed = metadata.get("channels", ()) if isinstance(metadata, dict) else ()
    names = [each.get("label") for each in listed]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return ()
    return tuple(names)
