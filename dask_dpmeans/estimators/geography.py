"""The metric "haversine": rows are places on the earth, in degrees."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.great_circle import EARTH_RADIUS, SpherePoints
from dask_dpmeans.kernels.metrics import Haversine, metric_of

if TYPE_CHECKING:
    from dask_dpmeans.sources import Names, RowSource
    from dask_dpmeans.storage import Result

HAVERSINE = "haversine"
LATITUDES = ("lat", "latitude")
LONGITUDES = ("lon", "lng", "long", "longitude")
"""Names of columns, in any case."""


@dataclass(frozen=True)
class PlaceMap:
    """Places in degrees as points in space, in kilometers."""

    parameters: dict[str, Any] = field(default_factory=dict)
    """None: the metric is a parameter of the method."""

    def check_weights(self, sample_weight: object) -> None:
        """Accept any weights."""

    def fit(self, source: "RowSource", seed: int) -> MappedRows:
        """Return points in float64, after another pass that checks the places."""
        if source.scale is not None:
            raise InputError(
                "scale cannot be used with metric='haversine': columns are degrees, leave it out"
            )
        points = points_in(source.used_names, source.n_features)
        doubles = replace(source, prepare=replace(source.prepare, dtype=np.dtype(np.float64)))
        return MappedRows(
            sources.source_of_features(doubles, points),
            passes=2,
            divergence=Haversine(points.swapped),
        )


def describe_places() -> dict[str, Any]:
    """Return the fields of a `Description` of a fit of places."""
    return {
        "settings": {"metric": f"{HAVERSINE}: places on a sphere of {EARTH_RADIUS} km"},
        "flat": False,
        "cost_name": "squared chord in km²",
        "inertia_name": "inertia, the squared chords in km²",
        "units": "degrees",
        "distance_unit": "kilometers",
        "center_columns": None,
    }


def place_map(metric: str) -> PlaceMap | None:
    """Return the map of rows for a metric; None if rows are as they are."""
    return PlaceMap() if metric == HAVERSINE else None


def measured_rows(source: "RowSource", metric: str) -> "tuple[RowSource, Divergence]":
    """Return rows as kernels see them under a metric, and the divergence; others have features."""
    places, divergence = place_map(metric), metric_of(metric)
    if places is None:
        return source, divergence
    mapped = places.fit(source, 0)
    return mapped.source, mapped.divergence or divergence


def points_in(names: "Names | None", d: int) -> SpherePoints:
    """Return the map of d columns with these names, which tell latitude from longitude.

    Columns without such names are latitude and longitude.

    >>> points_in(("lon", "lat"), 2).swapped, points_in(("x", "y"), 2).swapped
    (True, False)
    """
    if d != 2:
        listed = "" if names is None else f", {', '.join(map(repr, names[:9]))}"
        raise InputError(
            "metric='haversine' takes 2 columns, latitude and longitude in degrees, got "
            f"{d}{listed}: choose the two, such as frame[['lat', 'lon']] or --columns"
        )
    if names is None:
        return SpherePoints()
    first, second = (name.lower() for name in names)
    straight = first in LATITUDES or second in LONGITUDES
    swapped = first in LONGITUDES or second in LATITUDES
    if straight and swapped:
        raise InputError(
            f"metric='haversine' takes a latitude and a longitude, got columns {names[0]!r} and "
            f"{names[1]!r}"
        )
    return SpherePoints(swapped)


def restored_points(result: "Result") -> SpherePoints | None:
    """Return the map of the rows of a run; None if its rows are no places."""
    manifest = result.manifest
    if manifest.parameters.get("metric") != HAVERSINE:
        return None
    return points_in(sources.used_names(manifest.column_names, manifest.input.columns), 2)
