"""The page of a running fit: a Bokeh server on this machine, for `--live`.

The server is part of the process that drives the fit, not of Dask's dashboard.  So the page is the
same for threads and for clusters, and a scheduler needs no code of this package.  The fit only
leaves references to its last state and pass; a thread draws them if somebody looks.
"""

import asyncio
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import click
import numpy as np
from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models import BasicTicker, ColumnDataSource, HoverTool, PlainText
from bokeh.models.renderers import GlyphRenderer
from bokeh.models.widgets import Div
from bokeh.plotting import figure
from bokeh.server.server import Server
from matplotlib.colors import to_hex

from dask_dpmeans.cli.progress import Progress
from dask_dpmeans.engine.history import History
from dask_dpmeans.engine.loop import Progress as Fit
from dask_dpmeans.errors import InputError, of_store
from dask_dpmeans.figures.data.live import (
    COUNTS,
    MOST_CENTERS,
    Placed,
    center_map,
    center_names,
    step_columns,
)
from dask_dpmeans.figures.plot.canvas import colors_by_weight
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.storage.run_store import RunStore

ADDRESS = "127.0.0.1"
EVERY, REDRAW = 0.25, 1.0
"""Least seconds between two updates of the text of a page, and of its pictures."""
PAUSE = 20
"""Pictures rest this many times as long as they took to draw: they take at most 5 % of a core."""
MOST_STEPS = 5000
"""A page keeps this many of the last steps."""
Style = dict[str, str | None]
TITLE: Style = {"font-size": "1.4rem", "overflow-wrap": "anywhere"}
TEXT: Style = {"font-size": "1rem"}
HALF: Style = {"flex": "1 1 min(30rem, 100%)"}
"""Two columns on a wide screen, one on a narrow screen."""
TITLES = (
    "clusters k",
    "objective J",
    "changes that add (up) and remove clusters (down)",
    "seconds of a step",
)
UP, DOWN, INK = "#0072b2", "#d55e00", "#222222"
ENDED = {True: "The fit has ended.", False: "The fit was stopped."}


class LivePage:
    """The server of the page of a fit, as a context manager; only this machine reaches it.

    Parameters
    ----------
    port : of this machine; 0 for any free port
    run : the run that is written
    shown : what is known of the fit
    """

    def __init__(self, port: int, run: RunStore, shown: Progress) -> None:
        self.port, self.run, self.shown = port, run, shown
        self.end = ""
        """How the fit has ended."""
        self._listening: Future[tuple[int, asyncio.AbstractEventLoop]] = Future()
        self._over = asyncio.Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.port, self._loop = self._listening.result()
        except OSError as error:
            raise InputError(
                f"--live {self.port}: this port of this machine cannot be used "
                f"({error.strerror}): give another one, or 0 for any free port"
            ) from error
        click.echo(f"live page: http://localhost:{self.port}/", err=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end = ENDED[kind is None]
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def state(self) -> str:
        """Return the current pass and the last result, or how the fit has ended."""
        if self.end:
            return f"{self.end} {self.shown.last_result}"
        return self.shown.describe()

    async def _serve(self) -> None:
        """Serve until the fit is over; pages that are open then show its end."""
        try:
            server = Server(self._fill, port=self.port, address=ADDRESS)
        except Exception as error:  # raised by the thread that waits
            self._listening.set_exception(error)
            return
        server.start()
        self._listening.set_result((server.port or 0, asyncio.get_running_loop()))
        await self._over.wait()
        if server.get_sessions("/"):
            await asyncio.sleep(2 * EVERY)
        server.stop()

    def _fill(self, document: Document) -> None:
        """Make the page of one visitor."""
        page = Panels(self)
        config = getattr(document, "config", None)  # from Bokeh 3.8 on
        if config is not None:  # a server that has ended does not come back
            config.update(reconnect_session=False, notify_connection_status=False)
        document.title = f"dask-dpmeans {self.run.shown}"
        document.add_root(page.root)
        document.add_periodic_callback(page.refresh, round(1000 * EVERY))


class Panels:
    """The page of one visitor: text, the map of the centers, and panels over the steps."""

    def __init__(self, live: LivePage) -> None:
        self.live = live
        self.fit: Fit[Any] | None = None
        """The step that is drawn."""
        self.redraw_time = 0.0
        self.names: list[str] | None = None
        plain: dict[str, Any] = {"render_as_text": True, "disable_math": True}
        self.title = Div(text=f"dask-dpmeans {live.run.shown}", styles=TITLE, **plain)
        self.text = Div(name="state", styles=TEXT, **plain)
        self.steps = ColumnDataSource(step_columns(History(), 0), name="steps")
        self.centers = ColumnDataSource(
            {name: [] for name in ("x", "y", "size", "color", "cluster", "weight")}, name="centers"
        )
        self.map = self._map()
        steps = column(*self._step_panels(), sizing_mode="stretch_width", styles=HALF)
        self.panels = row(
            self.map,
            steps,
            visible=False,
            sizing_mode="stretch_width",
            styles={"flex-wrap": "wrap"},
        )
        self.root = column(self.title, self.text, self.panels, sizing_mode="stretch_width")
        self.refresh()

    def refresh(self) -> None:
        """Show the current pass and, after a step, its figures and its centers."""
        live, fit = self.live, self.live.shown.fit
        self.text.text = live.state()
        if fit is None or fit is self.fit or not (live.end or monotonic() >= self.redraw_time):
            return
        began = monotonic()
        drawn = 0 if self.fit is None else len(self.fit.history)
        self.steps.stream(step_columns(fit.history, drawn), MOST_STEPS)
        placed, self.fit, self.panels.visible = Placed.of(fit.state), fit, True
        if placed is not None:
            self._place(placed)
        ended = monotonic()
        self.redraw_time = ended + max(REDRAW, PAUSE * (ended - began))

    def _place(self, placed: Placed) -> None:
        if self.names is None:
            self.names = self._read_names(placed.centers.shape[1])
        heaviest = placed.heaviest(MOST_CENTERS)
        coordinates, labels = center_map(heaviest, self.names)
        shares = heaviest.weights / placed.weights.sum()
        colors = colors_by_weight(total(placed.groups, placed.weights, 1))
        self.centers.data = {
            "x": coordinates[:, 0],
            "y": coordinates[:, 1],
            "size": np.clip(180 * np.sqrt(shares), 4, 60),  # pixels
            "color": [to_hex(color) for color in colors[heaviest.groups]],
            "cluster": heaviest.groups,
            "weight": heaviest.weights,
        }
        for axis, label in zip((self.map.xaxis, self.map.yaxis), labels, strict=True):
            axis.axis_label = PlainText(text=label)  # not TeX
        self.map.visible = True

    def _read_names(self, d: int) -> list[str]:
        """Return the names of the d columns of the centers; numbers if the store does not answer."""
        try:
            return center_names(self.live.run.request(), d)
        except Exception as error:
            if not of_store(error):
                raise
            return [f"column {number}" for number in range(d)]

    def _map(self) -> figure:
        """Return the empty map of the centers."""
        plot = figure(
            title="centers, with an area by weight",
            height=560,
            visible=False,
            sizing_mode="stretch_width",
            styles=HALF,
            tools="pan,wheel_zoom,box_zoom,reset",
        )
        plot.toolbar.logo = None
        circles: dict[str, Any] = {"size": "size", "color": "color", "line_color": "white"}
        drawn = plot.scatter("x", "y", alpha=0.8, line_width=0.5, source=self.centers, **circles)
        tips = [("cluster", "@cluster"), ("weight", "@weight{0,0.[00]}")]
        plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        return plot

    def _step_panels(self) -> list[figure]:
        """Return the panels over the steps: k, J, changes of k, and time."""
        given: dict[str, Any] = {"x": "step", "source": self.steps}
        bars: dict[str, Any] = {**given, "width": 0.8, "line_color": None}
        k, objective, changes, seconds = panels = [
            figure(title=title, height=140, sizing_mode="stretch_width", toolbar_location=None)
            for title in TITLES
        ]
        k.line(y="n_clusters", color=INK, **given)
        objective.line(y="objective", color=INK, **given)
        changes.vbar(top="removing", color=DOWN, **bars)
        drawn: list[GlyphRenderer[Any]] = [
            k.scatter(y="n_clusters", color=INK, **given),
            objective.scatter(y="objective", color=INK, **given),
            changes.vbar(top="adding", color=UP, **bars),
            seconds.vbar(top="seconds", color=INK, **bars),
        ]
        tips = [(name, f"@{name}") for name in ("step", "objective", "seconds", *COUNTS)]
        for plot, one in zip(panels, drawn, strict=True):
            plot.x_range = k.x_range
            plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
            plot.add_tools(HoverTool(renderers=[one], mode="vline", tooltips=tips))
        for plot in (k, changes):
            plot.yaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
        seconds.xaxis.axis_label = "step"
        return panels
