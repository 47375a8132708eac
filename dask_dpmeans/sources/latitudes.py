"""Weights of samples by the cosine of their latitude."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources.grids import Coordinate

LATITUDE = "latitude"
"""Weights by the cosine of the latitude."""
LATITUDE_UNITS = ["degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN"]
"""Units of latitudes, by the CF conventions (section 4.1)."""
LATITUDE_NAMES = ("lat", "latitude", "nav_lat")
"""Names of latitudes, in any case, where no attribute says what they are."""
BEYOND_POLE = 1e-3
"""Degrees beyond a pole that are rounding: float32 has 8e-6 there."""


def latitude_of(coords: Sequence[Coordinate]) -> Coordinate:
    """Return the one coordinate that is the latitude, by its attributes or else by its name."""
    along = [each for each in coords if each.dims]
    ways = (
        [each for each in along if each.attrs.get("standard_name") == "latitude"],
        [each for each in along if each.attrs.get("units") in LATITUDE_UNITS],
        [each for each in along if each.name.lower() in LATITUDE_NAMES],
    )
    found = next(filter(None, ways), [])
    if len(found) != 1:
        names = ", ".join(repr(each.name) for each in found or along) or "none"
        reason = (
            "more than one coordinate is a latitude" if found else "no coordinate is a latitude"
        )
        raise InputError(
            f"{reason} along the samples: {names}; give sample_weight as a DataArray, such as "
            "numpy.cos(numpy.deg2rad(X.lat))"
        )
    return found[0]


def is_latitude(weights: object) -> bool:
    """Return whether weights are the cosines of the latitude."""
    return isinstance(weights, str) and weights == LATITUDE


def cosines(latitudes: Any, name: str) -> Float64Array:
    """Return the cosine of latitudes in degrees, (...), of the coordinate of this name."""
    degrees: Float64Array = np.ascontiguousarray(latitudes, np.float64)
    if (np.abs(degrees) > 90 + BEYOND_POLE).any():
        worst = degrees.flat[int(np.nanargmax(np.abs(degrees)))]
        raise InputError(
            f"the coordinate {name!r} holds {worst:g}, which is no latitude in degrees: give the "
            "weights as a DataArray"
        )
    return np.cos(np.deg2rad(degrees)).clip(0.0)
