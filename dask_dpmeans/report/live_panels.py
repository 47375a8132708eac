"""Panels of a page that answer to the mouse: maps and sizes, drawn by Bokeh in the browser."""

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Density, Overview
from dask_dpmeans.figures.data.rows import upper_ends
from dask_dpmeans.figures.plot.canvas import shortened
from dask_dpmeans.figures.plot.maps import MOST_LABELS, shade
from dask_dpmeans.kernels.block import Float64Array, Int64Array

try:
    from bokeh.core.types import ID
    from bokeh.embed import json_item
    from bokeh.models import ColumnDataSource, FixedTicker, PlainText, Range1d, WheelZoomTool
    from bokeh.plotting import figure
    from bokeh.resources import Resources
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("bokeh"):
        raise
    AVAILABLE = False
else:
    AVAILABLE = True

FIRST_SIDE, SIDE = 400, 200
"""Most boxes along a side of the first map, and of the others."""
MOST_DIGITS = 24
"""Most digits of the ticks at clusters."""
INK, LINE = "#1b1b1b", "#c8c8c8"


class Live(NamedTuple):
    """Code and data for the browser."""

    library: str
    """The code of Bokeh."""
    panels: list[dict[str, Any]]
    """Documents of Bokeh, each with the identifier of its element."""

    @property
    def text(self) -> str:
        """The panels as JSON that may stand inside of an element."""
        return json.dumps(self.panels, separators=(",", ":")).replace("<", "\\u003c")


def live(overview: Overview) -> Live | None:
    """Return the panels of an overview; None without Bokeh or if there are none."""
    if not AVAILABLE or not overview.clusters:
        return None
    panels = []
    for number, density in enumerate(overview.maps, 1):
        side = FIRST_SIDE if number == 1 else SIDE
        if len(density.axes) == 2:
            panels.append(_item(_map(density, _ranks(overview), side), f"map-{number}"))
    panels.append(_item(_sizes(overview), "sizes"))
    return Live(Resources(mode="inline", components=["bokeh"]).js_raw[0], panels)


def _item(panel: Any, target: str) -> dict[str, Any]:
    """Return a panel as JSON whose identifiers do not depend on what was drawn before."""
    found: dict[str, Any] = json.loads(json.dumps(json_item(panel, ID(target))))
    names: dict[str, str] = {}
    _rename(found, names)
    return found | {"root_id": names[found["root_id"]]}


def _rename(value: Any, names: dict[str, str]) -> None:
    """Number the identifiers of models by first appearance, in place."""
    if isinstance(value, list):
        for each in value:
            _rename(each, names)
    elif isinstance(value, dict):
        if isinstance(value.get("id"), str):
            value["id"] = names.setdefault(value["id"], f"p{len(names) + 1}")
        for each in value.values():
            _rename(each, names)


def _ranks(overview: Overview) -> dict[int, int]:
    return {each.cluster: rank for rank, each in enumerate(overview.clusters)}


def _colors(clusters: Int64Array, ranks: dict[int, int]) -> Float64Array:
    """Return the colors of clusters, (m, 4); clusters without a rank are grey."""
    least = 10**6
    return plot.cluster_colors(np.array([ranks.get(each, least) for each in clusters.tolist()]))


# Maps


def _map(density: Density, ranks: dict[int, int], side: int) -> Any:
    panel = _panel([f"{shortened(each, 48)}\n({density.unit})" for each in density.axes])
    margin = 0.03 * (upper_ends(density.low, density.high) - density.low)
    room = np.array([1.0, 2.5])  # the number of a center is above it
    (left, bottom), (right, top) = density.low - margin, density.high + room * margin
    panel.x_range, panel.y_range = Range1d(start=left, end=right), Range1d(start=bottom, end=top)
    if density.points is not None and density.labels is not None:
        _add_points(panel, density, ranks)
    elif density.counts is not None:
        _add_boxes(panel, density, ranks, side)
    _add_centers(panel, density, ranks)
    return panel


def _add_points(panel: Any, density: Density, ranks: dict[int, int]) -> None:
    assert density.points is not None
    assert density.labels is not None
    points, labels = _compact(density.points, density), density.labels.astype(np.int32)
    # in random order, or the last cluster would cover the others
    order = np.random.default_rng(0).permutation(len(points))
    colors = _colors(labels[order].astype(np.int64), ranks)
    columns = {
        "x": points[order, 0],
        "y": points[order, 1],
        "row": order.astype(np.int32),
        "cluster": labels[order],
        "color": _color_bytes(colors),
        "alpha": np.full(len(points), 0.8, np.float32),
    }
    panel.scatter(
        "x",
        "y",
        size=max(3.0, min(8.0, 200 / len(points) ** 0.5)),
        fill_color="color",
        fill_alpha="alpha",
        line_color=None,
        source=ColumnDataSource(columns, name="points"),
    )


def _compact(places: Float64Array, density: Density) -> NDArray[np.floating[Any]]:
    """Return places, (m, 2), in float32 if that is 10,000 times as fine as the map."""
    single, largest = np.finfo(np.float32), np.maximum(np.abs(density.low), np.abs(density.high))
    fine = float(single.eps) * largest <= 1e-4 * (density.high - density.low)
    most = float(np.abs(places).max(initial=0.0))
    return places.astype(np.float32) if fine.all() and most < float(single.max) else places


def _color_bytes(colors: Float64Array) -> NDArray[np.uint8]:
    """Return colors, (n, 4), as bytes."""
    return np.rint(colors * 255).astype(np.uint8)


def _add_boxes(panel: Any, density: Density, ranks: dict[int, int], side: int) -> None:
    """Add the weight of the rows in boxes, in the mixed colors of their clusters."""
    assert density.counts is not None
    counts, growth = coarsened(density.counts, side)
    extent = growth * (density.high - density.low)
    image = np.ascontiguousarray(_color_bytes(shade(counts, _colors(density.layers, ranks))))
    counts = counts.transpose(0, 2, 1)
    total, first = counts.sum(axis=0), counts.argmax(axis=0)
    share = counts.max(axis=0) / np.where(total > 0, total, 1.0)
    clusters = np.where(total > 0, density.layers[first], -2)
    columns = {
        "image": [image.view(np.uint32)[..., 0]],
        "cluster": [clusters.astype(np.int32 if clusters.max() > 32767 else np.int16)],
        "share": [np.rint(100 * share).astype(np.uint8)],
        "weight": [total.astype(np.float32)],
        "x": [density.low[0]],
        "y": [density.low[1]],
        "width": [extent[0]],
        "height": [extent[1]],
    }
    source = ColumnDataSource(columns, name="boxes")
    panel.image_rgba("image", "x", "y", "width", "height", source=source)


def coarsened(counts: Float64Array, side: int) -> tuple[Float64Array, Float64Array]:
    """Return counts, (c, b, b'), in at most `side` boxes in a row, and the growth of the window.

    Neighbors are summed; the window grows if their number does not divide the boxes.
    """
    growth = np.ones(2)
    for axis in (1, 2):
        boxes = counts.shape[axis]
        step = -(-boxes // side)
        counts = np.add.reduceat(counts, np.arange(0, boxes, step), axis=axis)
        growth[axis - 1] = step * counts.shape[axis] / boxes
    return counts, growth


def _add_centers(panel: Any, density: Density, ranks: dict[int, int]) -> None:
    """Add the centers, with numbers where each cluster has one and there is room."""
    groups, single = density.groups, len(set(density.groups.tolist())) == len(density.groups)
    order = np.argsort([ranks.get(each, len(groups)) for each in groups.tolist()], kind="stable")
    places = _compact(density.centers[order], density)
    span = upper_ends(density.low, density.high) - density.low
    texts = [""] * len(places)
    if single:
        screen = (places - density.low) / span * (360, 300)
        spaced = np.flatnonzero(plot.choose_spaced(screen, (22, 14), 11, MOST_LABELS))
        for place in spaced.tolist():
            texts[place] = str(groups[order[place]])
    columns = {
        "x": places[:, 0],
        "y": places[:, 1],
        "cluster": groups[order].astype(np.int32),
        "color": _color_bytes(_colors(groups[order], ranks)),
        "text": texts,
        "alpha": np.ones(len(places), np.float32),
    }
    source = ColumnDataSource(columns, name="centers")
    size = max(4.0, min(9.0, 60 / len(places) ** 0.5))
    ink = {"line_color": INK, "line_alpha": "alpha", "fill_alpha": "alpha"}
    panel.scatter("x", "y", size=size, fill_color="color", source=source, **ink)
    panel.text(
        "x",
        "y",
        "text",
        source=source,
        y_offset=-6,
        text_alpha="alpha",
        text_align="center",
        text_font={"value": "sans-serif"},
        text_font_size="13px",
        text_color=INK,
        background_fill_color="white",
        background_fill_alpha=0.8,
    )


# Sizes


def _sizes(overview: Overview) -> Any:
    clusters = np.array([each.cluster for each in overview.clusters], np.int32)
    places = np.arange(len(clusters), dtype=np.float32)
    columns = {
        "x": places,
        "cluster": clusters,
        "weight": np.array([each.weight for each in overview.clusters], np.float64),
        "share": np.array([100 * each.share for each in overview.clusters], np.float64),
        "color": _color_bytes(_colors(clusters.astype(np.int64), _ranks(overview))),
        "alpha": np.ones(len(clusters), np.float32),
    }
    panel = _panel(["cluster", "share of the rows, %"])
    panel.vbar(
        "x",
        top="share",
        width=0.8,
        fill_color="color",
        fill_alpha="alpha",
        line_color=None,
        source=ColumnDataSource(columns, name="bars"),
    )
    digits = len(clusters) * len(str(clusters.max()))
    step = -(-digits // MOST_DIGITS)
    panel.xaxis.ticker = FixedTicker(ticks=list(range(0, len(clusters), step)))
    panel.xaxis.major_label_overrides = {
        place: str(clusters[place]) for place in range(0, len(clusters), step)
    }
    panel.x_range = Range1d(start=-0.6, end=len(clusters) - 0.4)
    panel.y_range = Range1d(start=0, end=105 * max(each.share for each in overview.clusters))
    panel.toolbar_location = None
    panel.toolbar.tools = []
    return panel


# Axes


def _panel(names: list[str]) -> Any:
    panel = figure(height=420, sizing_mode="stretch_width", tools="pan,box_zoom,reset")
    wheel = WheelZoomTool(modifiers={"ctrl": True})
    panel.add_tools(wheel)
    panel.toolbar.active_scroll = wheel
    panel.toolbar.logo = None
    panel.background_fill_color = panel.border_fill_color = panel.outline_line_color = None
    panel.grid.grid_line_color = LINE
    panel.grid.grid_line_alpha = 0.5
    for axis, name in zip((panel.xaxis, panel.yaxis), names, strict=True):
        axis.axis_label = PlainText(text=name)  # text with $$ would be set as TeX
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
        axis.axis_label_text_color = axis.major_label_text_color = INK
        axis.minor_tick_line_color = None
    return panel
