"""The page of a running fit: on this machine alone, as long as the fit runs, without a trace."""

import gc
import html
import os
import re
import socket
import sys
import threading
from time import monotonic
from urllib.request import urlopen

import numpy as np
import pytest
import zarr
from bokeh.client import pull_session
from bokeh.models import Model, PlainText
from click.testing import CliRunner
from scipy.sparse import csr_array, save_npz

from dask_dpmeans import DPMeans, cli, fit
from dask_dpmeans.api.loading import load
from dask_dpmeans.cli import live_page as live
from dask_dpmeans.cli import main
from dask_dpmeans.cli.live_page import LivePage, Panels
from dask_dpmeans.cli.progress import PlainLines
from dask_dpmeans.figures.data.live import Placed
from dask_dpmeans.storage.run_store import RunStore

HOSTILE = "<img src=x onerror=alert(1)>$$x$$"
ROWS = np.random.default_rng(0).uniform(-9, 9, (8, 3))[np.arange(400) % 8]
ROWS = ROWS + np.random.default_rng(1).standard_normal(ROWS.shape)
PENALTIES = ["--local-penalty", "20", "--global-penalty", "30"]
COMMANDS = {
    "fit": ["fit", "rows.npy", "--penalty", "20"],
    "search": ["fit", "rows.npy", "--penalty", "60", "--search"],
    "hdp": ["hdp", "rows.npy", "--groups", "groups.npy", *PENALTIES],
    "kernel": ["kernel", "rows.npy", "--penalty", "0.5"],
    "spectral": ["spectral", "rows.npy", "--penalty", "200"],
    "graph": ["graph", "graph.npz", "--penalty", "-0.5"],
    "shapes": ["shapes", "rows.npy", "--penalty", "-0.5", "--micro-penalty", "20"],
}
WITHOUT_CENTERS = {"kernel", "graph"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("groups.npy", np.arange(400) % 3)
    save_npz("graph.npz", csr_array(np.kron(np.eye(3), np.ones((4, 4)) - np.eye(4))))
    return tmp_path


def call(*command):
    return CliRunner().invoke(main, [*command, "--seed", "0", "--threads", "1"])


def serve(tmp_path, shown=None):
    return LivePage(0, RunStore.at(tmp_path / "run.zarr"), shown or PlainLines())


def model_of(session, name):
    found = session.document.get_model_by_name(name)
    assert isinstance(found, Model)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_its_fit_and_ends_with_the_same_bytes(folder, monkeypatch, name):
    visits, leave = [], LivePage.__exit__

    def visited(page, *error):
        visits.append(Panels(page))
        leave(page, *error)

    monkeypatch.setattr(LivePage, "__exit__", visited)
    method, data, *options = COMMANDS[name]
    plain, watched = (
        call(method, data, run, *options, *more)
        for run, more in (("plain.zarr", []), ("watched.zarr", ["--live", "0"]))
    )
    assert (plain.exit_code, watched.exit_code) == (0, 0), watched.output
    assert re.search(r"^live page: http://localhost:\d+/$", watched.stderr, re.MULTILINE)
    model, [page] = load("watched.zarr"), visits
    assert page.steps.data["n_clusters"][-1] == model.n_clusters_
    assert page.steps.data["objective"].tolist() == [each.objective for each in model.history_]
    assert page.map.visible is (name not in WITHOUT_CENTERS)
    for key, array in zarr.open_group("plain.zarr", mode="r").arrays():
        if key != "seconds":
            assert zarr.open_array(f"watched.zarr/{key}")[...].tobytes() == array[...].tobytes()
    before = [vars(each) | {"seconds": 0.0} for each in load("plain.zarr").history_]
    assert before == [vars(each) | {"seconds": 0.0} for each in model.history_]
    if page.map.visible:
        drawn, placed = page.centers.data, Placed.of(page.fit.state)
        assert len(drawn["x"]) == len(placed.centers) == len(placed.weights) == len(placed.groups)
        assert len(np.unique(drawn["cluster"])) == model.n_clusters_
        area = drawn["size"] ** 2 / drawn["weight"]
        inside = (drawn["size"] > 4) & (drawn["size"] < 60)
        np.testing.assert_allclose(area[inside], area[inside][:1].repeat(inside.sum()))


def test_an_open_page_gets_the_steps_as_they_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "EVERY", 0.01)
    monkeypatch.setattr(live, "REDRAW", 0.0)
    monkeypatch.setattr(live, "PAUSE", 0)
    shown, seen = PlainLines(), []
    with serve(tmp_path, shown) as page, shown:
        url = f"http://localhost:{page.port}/"
        session = pull_session(url=url)
        assert len(model_of(session, "steps").data["step"]) == 0

        def arrived(fit):
            shown.note(fit)
            if len(seen) == 2:
                return
            deadline, steps = monotonic() + 60, []
            while len(steps) < len(fit.history) and monotonic() < deadline:
                again = pull_session(url=url, session_id=session.id)  # of the same page
                steps = list(model_of(again, "steps").data["n_clusters"])
                again.close()
            seen.append(steps)
            assert len(model_of(again, "centers").data["x"]) == steps[-1]
            assert shown.last_result in model_of(again, "state").text

        method = DPMeans(20.0, tol=0, random_state=0)
        model = fit(
            ROWS, page.run.location, method, threads=1, on_step=shown.step, on_progress=arrived
        )
        session.close()
    numbers = [record.n_clusters for record in model.history_]
    assert seen == [numbers[:1], numbers[:2]]


def test_a_resumed_fit_shows_all_its_steps(tmp_path):
    run, method = tmp_path / "run.zarr", DPMeans(20.0, tol=0, random_state=0)
    shown = PlainLines()

    def end(number, *_):
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(ROWS, run, method, threads=1, on_step=end)
    model = fit(ROWS, run, method, threads=1, resume=True, on_progress=shown.note)
    page = Panels(serve(tmp_path, shown))
    assert page.steps.data["step"].tolist() == list(range(1, model.n_iter_ + 1))


def handshake(port, origin):
    """Open a page and its socket as a browser does; return the socket and the status."""
    page = urlopen(f"http://localhost:{port}/", timeout=60).read().decode()
    token = re.search(r'"token":"([^"]+)"', html.unescape(page))[1]
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    opened.sendall(
        f"GET /ws HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        f"AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: bokeh, {token}\r\n\r\n".encode()
    )
    return opened, opened.recv(4096).split()[1].decode()


def test_pages_of_other_sites_cannot_read_it(tmp_path):
    with serve(tmp_path) as page:
        for origin, wanted in (
            (f"http://localhost:{page.port}", "101"),
            ("http://evil.example", "403"),
            (f"http://evil.example:{page.port}", "403"),
        ):
            opened, status = handshake(page.port, origin)
            opened.close()
            assert status == wanted, origin


def test_only_this_machine_reaches_it(tmp_path):
    with serve(tmp_path) as page, open("/proc/net/tcp") as table:
        listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{page.port:04X}")] == [
        f"0100007F:{page.port:04X}"
    ]


def sockets():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # of the listing itself
            continue
    return {each for each in found if each.startswith("socket")}


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ZeroDivisionError])
def test_the_server_ends_with_the_fit_and_leaves_nothing(tmp_path, error):
    before = set(threading.enumerate()), sockets()
    opened = None
    try:
        with serve(tmp_path) as page:
            opened, _ = handshake(page.port, f"http://localhost:{page.port}")
            if error is not None:
                raise error
    except (KeyboardInterrupt, ZeroDivisionError):
        assert page.end == "The fit was stopped."
    else:
        assert page.end == "The fit has ended."
    with pytest.raises(ConnectionRefusedError, match="refused"):
        socket.create_connection(("127.0.0.1", page.port), timeout=60)
    while opened.recv(4096):  # the server has closed it
        pass
    opened.close()
    assert set(threading.enumerate()) <= before[0]
    assert sockets() <= before[1]


def test_a_page_shows_how_the_fit_ended(tmp_path):
    shown = PlainLines()
    shown.last_result = "step 3: k=7"
    page = serve(tmp_path, shown)
    panels = Panels(page)
    assert panels.text.text == "step 3: k=7"
    with page:
        pass
    panels.refresh()
    assert panels.text.text == "The fit has ended. step 3: k=7"


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_port_in_use_is_said_before_any_work(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call(*COMMANDS["fit"][:2], "run.zarr", "--penalty", "20", "--live", str(port))
    assert result.exit_code == 2
    assert f"--live {port}: this port of this machine cannot be used" in result.stderr
    assert "give another one, or 0 for any free port" in " ".join(result.stderr.split())
    assert not os.path.exists("run.zarr")
    del result
    gc.collect()  # Tornado does not close a socket that it could not bind


@pytest.mark.parametrize("name", ["bokeh", "matplotlib"])
def test_without_bokeh_the_command_says_how_to_get_it(folder, monkeypatch, name):
    parts = "dask_dpmeans.cli.live_page", "dask_dpmeans.figures.plot", f"{name}."
    for module in [each for each in sys.modules if each.startswith(parts)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delattr(cli, "live_page")
    result = call(*COMMANDS["fit"][:2], "run.zarr", "--penalty", "20", "--live", "0")
    assert result.exit_code == 2
    assert f"{name} is missing" in result.stderr
    assert 'pip install "dask-dpmeans[plot]"' in result.stderr
    assert not os.path.exists("run.zarr")


def test_a_dry_run_has_no_page(folder):
    result = call(*COMMANDS["fit"][:2], "run.zarr", "--dry-run", "--live", "0")
    assert result.exit_code == 2
    assert "a dry run has no steps to show: leave out --live" in result.stderr


def test_names_are_text_and_neither_html_nor_tex(tmp_path):
    pandas = pytest.importorskip("pandas")
    shown, run = PlainLines(), tmp_path / HOSTILE.replace("/", "")
    table = pandas.DataFrame(ROWS[:, :2], columns=[HOSTILE, "b"])
    fit(table, run, DPMeans(20.0, random_state=0), threads=1, on_progress=shown.note)
    with LivePage(0, RunStore.at(run), shown) as page:
        panels = Panels(page)
        text = urlopen(f"http://localhost:{page.port}/", timeout=60).read().decode()
    assert "<img" not in text
    assert html.escape(HOSTILE) in text, "the title of the page"
    [label] = {axis.axis_label for axis in panels.map.xaxis}
    assert isinstance(label, PlainText)
    assert label.text == HOSTILE
    for part in (panels.title, panels.text):
        assert (part.render_as_text, part.disable_math) == (True, True)
    assert HOSTILE in panels.title.text


def test_what_is_told_of_progress_must_be_a_function(tmp_path):
    with pytest.raises(ValueError, match="on_progress must be a function, got 3"):
        fit(ROWS, tmp_path / "run.zarr", DPMeans(20.0), on_progress=3)
