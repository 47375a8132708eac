"""Places on the earth as points in space, and their distances along great circles.

The earth is a sphere of radius `EARTH_RADIUS`.  Points are in kilometers from its middle, in float64:
float32 would round them by up to 0.4 m.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Rows, Scratch
from dask_dpmeans.kernels.encoding import Layout

EARTH_RADIUS = 6371.0088
"""Mean radius of the earth, in kilometers (Moritz 2000)."""
FARTHEST = math.pi * EARTH_RADIUS
"""Distance of opposite places, in kilometers."""


@dataclass(frozen=True)
class SpherePoints:
    """Places in degrees as points in space, in kilometers from the middle of the earth."""

    swapped: bool = False
    """Whether the columns are longitude and latitude; otherwise latitude and longitude."""

    n_features: ClassVar[int] = 3
    """Number of features."""
    layout: ClassVar[Layout] = Layout(("squared", "squared"), (0, 0))
    """Columns of centers for users: two numbers."""

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return the points, (height, 3), of places, (height, 2); NaN for rows that are no places."""
        points = scratch.array("features", (len(rows), 3), rows.dtype)
        points[...] = points_of(rows, swapped=self.swapped)
        return points

    def error_message(self, position: str) -> str:
        """Return the error message for a row that is no place."""
        latitude, longitude = ("second", "first") if self.swapped else ("first", "second")
        return (
            f"data is no place on the earth at {position}: the {latitude} column must be a latitude "
            f"from -90 to 90 degrees, the {longitude} a longitude from -180 to 360; if the columns are "
            "the other way round, swap them; other longitudes are (longitude + 180) % 360 - 180"
        )


def points_of(places: Rows, *, swapped: bool = False) -> Float64Array:
    """Return the points, (n, 3), of places, (n, 2) degrees; NaN for rows that are no places.

    One place has one point, whichever of its longitudes is given.
    """
    # sine and cosine take other code for strided arrays
    latitude, longitude = np.array(places[:, ::-1] if swapped else places, np.float64).T.copy()
    outside = ~((np.abs(latitude) <= 90) & (longitude >= -180) & (longitude <= 360))
    latitude[outside] = np.nan
    longitude = np.where(longitude > 180, longitude - 360, longitude)  # exact
    longitude[longitude == -180] = 180
    phi, theta = np.radians(latitude), np.radians(longitude)
    pole = np.abs(latitude) == 90
    across = np.where(pole, 0.0, EARTH_RADIUS * np.cos(phi))
    points = np.empty((len(latitude), 3))
    points[:, 0], points[:, 1] = across * np.cos(theta), across * np.sin(theta)
    points[:, 2] = EARTH_RADIUS * np.sin(phi)
    return points


def places_of(points: Float64Array, *, swapped: bool = False) -> Float64Array:
    """Return the places below points, (n, 3), as latitudes and longitudes in degrees, (n, 2)."""
    x, y, z = points.T
    latitude, longitude = np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
    return np.column_stack([longitude, latitude] if swapped else [latitude, longitude])


def great_circles(points: Rows, others: Float64Array) -> Float64Array:
    """Return the great-circle distances, (...), of points, (..., 3), in kilometers.

    The half angle is the angle of the chord and of the sum, which is accurate for near and for
    opposite points; the arc sine of half the chord is off by 5e-9 of the distance for the latter.
    """
    doubles = points.astype(np.float64)
    chords, sums = _norms(doubles - others), _norms(doubles + others)
    arcs: Float64Array = 2 * EARTH_RADIUS * np.arctan2(chords, sums)
    return arcs


def squared_chord(arc: float) -> float:
    """Return the squared chord, in km^2, of a great-circle distance in kilometers."""
    return (2 * EARTH_RADIUS * math.sin(arc / (2 * EARTH_RADIUS))) ** 2


def arc_of(squared: float) -> float:
    """Return the great-circle distance, in kilometers, of a squared chord in km^2."""
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(squared) / (2 * EARTH_RADIUS)))


def _norms(vectors: Float64Array) -> Float64Array:
    norms: Float64Array = np.sqrt(np.einsum("...j,...j->...", vectors, vectors))
    return norms
