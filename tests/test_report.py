"""A run as a page: what it says, that it loads nothing, and that its commands make the run again."""

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner
from matplotlib import image
from scipy.sparse import csr_array, save_npz

import dask_dpmeans
from dask_dpmeans import DPMeans, GraphCutDPMeans, HDPMeans, InputError, fit, load, report
from dask_dpmeans.api.loading import open_run, read_run
from dask_dpmeans.cli import main
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.figures.data import Neighbor, Overview, Portrait
from dask_dpmeans.report import origin, page, run_page, run_rows, sentences
from dask_dpmeans.report.page import Picture, Table, html
from dask_dpmeans.report.run_rows import UNGROUPED, UNWEIGHTED
from dask_dpmeans.selection.penalty import penalty_path, read_path, write_path
from dask_dpmeans.selection.tree import cluster_tree, read_tree, write_tree

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
UNCHECKED = "The input is stored without checksums: a flipped bit in it would not be found."
METHODS = {
    "auto": ["rows.zarr", "--seed", "3"],
    "fit": [
        "rows.zarr",
        "--penalty",
        "12",
        "--init",
        "mean",
        "--seed",
        "3",
        "--columns",
        "0,2",
        "--scale",
        "std",
    ],
    "search": [
        "rows.zarr",
        "--penalty",
        "40",
        "--search",
        "--seed",
        "1",
        "--weights",
        "weights.npy",
    ],
    "hdp": [
        "rows.zarr",
        "--groups",
        "groups.npy",
        "--local-penalty",
        "20",
        "--global-penalty",
        "90",
        "--seed",
        "0",
    ],
    "kernel": ["rows.zarr", "--penalty", ".6", "--gamma", ".05", "--seed", "0"],
    "nystroem": [
        "rows.zarr",
        "--penalty",
        ".6",
        "--approximation",
        "nystroem",
        "--components",
        "20",
        "--seed",
        "2",
    ],
    "spectral": ["rows.zarr", "--penalty", "500", "--seed", "0"],
    "neighbors": [
        "rows.zarr",
        "--penalty",
        ".99",
        "--affinity",
        "nearest_neighbors",
        "--neighbors",
        "8",
        "--seed",
        "0",
    ],
    "graph": ["graph.npz", "--penalty", "-0.6", "--seed", "0"],
    "shapes": ["rows.zarr", "--clusters", "4", "--seed", "0"],
}
COMMANDS = {"auto": "fit", "search": "fit", "nystroem": "kernel", "neighbors": "spectral"}
PICTURES = {
    "auto": ["Fit", "Profile", "Tree", "Columns"],
    "fit": ["Fit", "Profile", "Tree"],
    "search": ["Fit", "Profile", "Tree", "Columns"],
    "hdp": ["Fit", "Profile", "Sharing", "Tree", "Columns"],
    "kernel": ["Fit"],
    "nystroem": ["Fit", "Tree", "Columns"],
    "spectral": ["Fit", "Tree", "Columns"],
    "neighbors": ["Fit", "Tree", "Columns"],
    "graph": ["Fit"],
    "shapes": ["Fit", "Merges", "Columns"],
}
BOTH = ["Clusters apart", "Principal directions"]
MAPS = {"fit": ["column 0 and column 2"], "kernel": [], "graph": ["Graph"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Inputs, and a run of each method."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    rows = rng.uniform(-10, 10, (4, 3))[rng.integers(4, size=300)] + rng.normal(size=(300, 3))
    rows[7] = 40.0
    zarr.create_array(folder / "rows.zarr", data=rows, chunks=(100, 3))
    np.save(folder / "weights.npy", rng.integers(1, 3, 300).astype(float))
    np.save(folder / "groups.npy", rng.integers(0, 5, 300))
    blocks = np.kron(np.eye(3), np.ones((5, 5)) - np.eye(5))
    blocks[4, 5] = blocks[5, 4] = blocks[9, 10] = blocks[10, 9] = 1
    save_npz(folder / "graph.npz", csr_array(blocks))
    for name, words in METHODS.items():
        run(name, words, folder / f"{name}-run", folder)
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures are not drawn, which is most of the work."""
    monkeypatch.setattr(
        Picture, "of", lambda title, caption, draw, dots=False: Picture(title, caption, "data:,")
    )


def run(name, words, out, folder):
    given = [
        str(folder / word) if word.endswith((".zarr", ".npy", ".npz")) else word for word in words
    ]
    arguments = [COMMANDS.get(name, name), given[0], str(out), *given[1:], "--threads", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output


def same(one, other):
    assert type(one) is type(other)
    np.testing.assert_array_equal(one.labels_.compute(), other.labels_.compute())
    assert one.get_params() == other.get_params()
    assert one.objective_ == other.objective_


class Links(HTMLParser):
    """Whatever a page would load, and the names of its elements."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.elements = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.loaded += [
            value
            for name, value in attributes
            if name in ("src", "href", "action", "data", "srcset")
        ]


@pytest.fixture(scope="module")
def written(folder):
    """A page, as it is written."""
    report.report(folder / "fit-run", folder / "out.html")
    return folder / "out.html"


@pytest.mark.parametrize("name", METHODS)
def test_a_page_of_each_method_has_its_pictures(folder, name, monkeypatch):
    def drawn(title, caption, draw, dots=False):
        return Picture(title, caption, f"data:{len(draw().axes)}")

    monkeypatch.setattr(Picture, "of", drawn)
    found, model = page(folder / f"{name}-run"), load(folder / f"{name}-run")
    assert [picture.title for picture in found.pictures] == PICTURES[name]
    assert [picture.title for picture in found.maps] == MAPS.get(name, BOTH)
    assert found.sizes.title == "Clusters"
    assert found.facts["Result"]["clusters, k"] == str(model.n_clusters_)
    assert found.facts["Result"]["objective, J"] == f"{model.objective_:.9g}"
    assert found.facts["Result"]["converged"] == "yes"
    assert len(found.tables[0].lines) == model.n_clusters_


def test_a_page_loads_nothing_and_runs_its_own_scripts_alone(written):
    text = written.read_text()
    links = Links(text)
    assert len(links.loaded) == 5
    assert all(
        each.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,"))
        for each in links.loaded
    )
    scripts = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert [f"'sha256-{each}'" for each in hashes] == re.findall("'sha256-[^']*'", text)[:2]
    assert links.elements.count("script") == 1 + len(scripts) == 3
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in text


@pytest.mark.parametrize("name", METHODS)
def test_what_a_page_says_makes_the_run_again(folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = open_run(folder / f"{name}-run")
    result, model = run.result, load(run.result.store.location)
    words = shlex.split(origin.command(result, model))
    assert words[0] == "dask-dpmeans"
    assert CliRunner().invoke(main, [*words[1:], "--threads", "1"]).exit_code == 0
    same(load("again.zarr"), model)
    if name not in ("fit", "hdp", "graph"):  # of the others the call differs in the estimator alone
        assert f"{type(model).__name__}(" in origin.call(result, model)
        return
    shutil.rmtree("again.zarr")
    exec(origin.call(result, model), {})
    same(load("again.zarr"), model)


def test_a_page_says_why_a_penalty_was_chosen_and_how_to_fit_the_others(
    folder, tmp_path, monkeypatch, undrawn
):
    monkeypatch.chdir(tmp_path)
    found, choice = page(folder / "auto-run"), load(folder / "auto-run").choice_
    [section] = found.first
    assert section.text == choice.reason
    assert section.picture.title == "Choice"
    assert [line[0] for line in section.table.lines] == [
        str(each.n_clusters) for each in choice.alternatives
    ]
    assert "stability" in found.tables[0].columns
    words = shlex.split(section.code.splitlines()[0])
    assert CliRunner().invoke(main, [*words[1:], "--threads", "1"]).exit_code == 0
    wanted = choice.alternatives[1]
    assert load(f"clusters-{wanted.n_clusters}.zarr").penalty == wanted.penalty
    assert page(folder / "search-run").first == []
    assert choice.reason in html(found)


def test_show_names_the_next_best_number_and_the_least_stable_clusters(folder):
    shown = CliRunner().invoke(main, ["show", str(folder / "auto-run")]).output
    model = load(folder / "auto-run")
    second = model.choice_.alternatives[1]
    assert f"next best   {second.n_clusters} cluster" in shown
    least = int(np.argmin(model.cluster_stability_))
    assert f"least stable: {least} ({model.cluster_stability_[least]:.2f})" in shown
    assert ("\ncaution " in shown) == (model.cluster_stability_[least] < 0.65)


def test_show_and_a_page_say_which_clusters_are_not_stable_and_what_to_do(folder):
    model = load(folder / "auto-run")
    k, names = model.n_clusters_, list(map(str, range(model.n_features_in_)))
    model.cluster_stability_ = np.ones(k)
    assert "caution" not in model.description().settings
    assert "not stable" not in run_page.cluster_table(model, names).caption
    model.cluster_stability_ = np.linspace(0.5, 1.0, k)
    told = f"of {k} clusters "
    caution = model.description().settings["caution"]
    assert told in caution
    assert "not stable (below 0.65): 0 (0.50)" in caution
    assert "compare them with the next best number" in caution
    assert f"{caution}." in run_page.cluster_table(model, names).caption


def test_a_run_of_rows_in_memory_that_started_from_centers_is_told_in_python(
    folder, tmp_path, monkeypatch, undrawn
):
    monkeypatch.chdir(tmp_path)
    rows = zarr.open_array(folder / "rows.zarr")[:]
    wanted = fit(
        rows,
        "run.zarr",
        DPMeans(12.0, init=rows[:2], random_state=0),
        sample_weight=np.full(300, 2.0),
    )
    found = page("run.zarr")
    assert found.command is None
    assert "where X are the rows: they were in memory" in html(found)
    assert [picture.title for picture in found.pictures] == PICTURES["fit"]
    assert found.maps == []
    exec(found.call, {"X": rows, "weights": np.full(300, 2.0)})
    np.testing.assert_array_equal(load("again.zarr").cluster_centers_, wanted.cluster_centers_)


def test_a_draw_of_the_sampler_has_a_page_and_no_end(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        Picture,
        "of",
        lambda title, caption, draw, dots=False: Picture(title, caption, str(len(draw().axes))),
    )
    model = fit(folder / "rows.zarr", "run.zarr", GibbsMixture(2.0, max_iter=5, random_state=0))
    found = page("run.zarr")
    assert [picture.title for picture in found.pictures] == ["Fit", "Tree", "Columns"]
    assert not any("max_iter" in warning or "penalty" in warning for warning in found.warnings)
    assert any("the variance is low" in warning for warning in found.warnings)
    assert "converged" not in found.facts["Result"]
    assert (
        found.facts["Result"]["objective, minus the log joint density"] == f"{model.objective_:.9g}"
    )
    assert found.command is None
    exec(found.call, {})
    same(load("again.zarr"), model)


def test_a_page_tells_of_clusters_of_one_row_and_of_an_end_before_convergence(
    folder, tmp_path, undrawn
):
    rows = zarr.open_array(folder / "rows.zarr")[:]
    with pytest.warns(UserWarning, match="stopped at max_iter=1"):
        fit(rows, tmp_path / "run", DPMeans(30.0, max_iter=1, random_state=0))
    found = page(tmp_path / "run")
    number = load(tmp_path / "run").cluster_weights_.tolist().index(1.0)
    assert (
        found.warnings[0]
        == "The fit stopped at max_iter=1 before it converged: raise max_iter, or tol."
    )
    assert (
        found.warnings[1]
        == f"1 cluster of a single row ({number}): outliers, or the penalty is low."
    )
    assert found.facts["Result"]["converged"] == "no"


def test_a_card_of_a_single_row_counts_one_row(tmp_path, undrawn):
    np.save(tmp_path / "rows.npy", np.repeat([[0.0, 0.0], [9.0, 9.0]], [20, 1], axis=0))
    fit(tmp_path / "rows.npy", tmp_path / "run", DPMeans(30.0, random_state=0))
    report.report(tmp_path / "run", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert re.findall(r"(\d+ rows?) · radius", text) == ["20 rows", "1 row"]


def test_a_page_tells_of_light_clusters_rows_at_the_edge_and_input_without_checksums(
    tmp_path, undrawn
):
    rows = np.zeros((9000, 2))
    rows[:3000] += 20.0
    rows[-2:] = -20.0
    rows[:2] += (1.95, 0.0)
    np.save(tmp_path / "rows.npy", rows)
    model = fit(tmp_path / "rows.npy", tmp_path / "run", DPMeans(4.0, random_state=0))
    found = page(tmp_path / "run")
    light, edge = found.warnings
    assert found.notes == [UNCHECKED]
    number = model.predict(rows[-1:])[0]
    assert (
        light
        == f"1 cluster of less than 0.001 of the mean weight ({number}): outliers, or the penalty is low."
    )
    assert edge.startswith(
        "2 rows (0.00022 of all) near the radius: squared distances above 0.9 of the penalty 4"
    )


@pytest.mark.parametrize("data", [None, False])
def test_an_embedding_that_cannot_be_read_is_a_warning_if_no_rows_were_given(
    folder, monkeypatch, undrawn, data
):
    """The rows that are drawn are stored in the run: it is not the user who gave them."""

    def fail(*_, **__):
        raise InputError("gone")

    monkeypatch.setattr(run_rows, "_source", fail)
    assert "could not be shown: gone" in page(folder / "neighbors-run", data=data).warnings[-1]


def test_rows_that_are_gone_or_changed_are_not_shown(folder, tmp_path, undrawn):
    rows = zarr.open_array(folder / "rows.zarr")[:]
    np.save(tmp_path / "rows.npy", rows)
    fit(tmp_path / "rows.npy", tmp_path / "run", DPMeans(12.0, random_state=0))
    np.save(tmp_path / "rows.npy", rows + 1)
    found = page(tmp_path / "run")
    assert found.warnings[-1].endswith("type of CPU): they are not shown.")
    assert [picture.title for picture in found.pictures] == PICTURES["fit"]
    assert found.maps == []
    np.save(tmp_path / "rows.npy", rows[:-1])
    assert "are not exactly the rows of the fit" in page(tmp_path / "run").warnings[-1]
    np.save(tmp_path / "rows.npy", np.full_like(rows, np.nan))
    assert "could not be shown" in page(tmp_path / "run").warnings[-1]
    with pytest.raises(InputError, match="X has 1 features, but DPMeans is expecting 3"):
        page(
            tmp_path / "run", data=rows[:, :1]
        )  # rows that the user gives are read, or are an error
    (tmp_path / "rows.npy").unlink()
    assert report.origin.locate(open_run(tmp_path / "run").result.manifest) is None
    found = page(tmp_path / "run")
    assert len(found.maps) == 0
    way = "Give their path with --data, or data= in Python."
    note = f"The rows are not shown: nothing is at {tmp_path / 'rows.npy'}. {way}"
    assert note in found.notes
    assert page(tmp_path / "run", data=False).notes == found.notes[:-1]
    assert len(page(tmp_path / "run", data=rows).maps) == 2
    arguments = ["report", str(tmp_path / "run"), str(tmp_path / "out.html")]
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0
    assert said.stderr == f"Warning: {note}\n"
    assert way in (tmp_path / "out.html").read_text()
    again = CliRunner().invoke(main, [*arguments, "--data", str(folder / "rows.zarr")])
    assert again.exit_code == 2
    assert "holds a report: --force writes over it" in " ".join(again.stderr.split())


def test_rows_are_shown_where_weights_were_in_memory(folder, tmp_path, undrawn):
    fit(
        folder / "rows.zarr",
        tmp_path / "run",
        DPMeans(12.0, random_state=0),
        sample_weight=np.full(300, 2.0),
    )
    found = page(tmp_path / "run")
    assert [picture.title for picture in found.maps] == BOTH
    assert found.notes == [UNCHECKED]
    assert found.warnings[-1] == UNWEIGHTED
    assert sum(each.share for each in found.overview.clusters) == pytest.approx(1)


def test_a_page_says_that_data_sets_were_in_memory(folder, tmp_path, undrawn):
    model, groups = HDPMeans(20.0, 40.0, random_state=0), np.arange(300) % 3
    fit(folder / "rows.zarr", tmp_path / "run", model, groups=groups)
    assert UNGROUPED in page(tmp_path / "run").warnings
    assert UNGROUPED not in page(folder / "hdp-run").warnings


def test_rows_of_a_lazy_table_have_numbers_instead_of_names(folder, tmp_path, undrawn):
    rows = zarr.open_array(folder / "rows.zarr")[:]
    frame = pd.DataFrame(rows, columns=[f"f{each}" for each in range(rows.shape[1])])
    frame.index = [f"r{each}" for each in range(len(frame))]
    lazy = dd.from_pandas(frame, npartitions=2, sort=False)
    fit(frame, tmp_path / "run", DPMeans(12.0, random_state=0))
    names = [
        [
            row.name
            for each in page(tmp_path / "run", data=data).overview.clusters
            for row in each.nearest
        ]
        for data in (frame, lazy)
    ]
    assert names[0] == [f"r{each}" for each in names[1]]


def test_a_page_says_which_clusters_have_no_card_and_no_color(tmp_path, undrawn):
    np.save(tmp_path / "rows.npy", np.repeat(np.arange(70.0)[:, np.newaxis] * [10, 1], 2, axis=0))
    fit(tmp_path / "rows.npy", tmp_path / "run", DPMeans(1.0, init="mean", random_state=0))
    found = page(tmp_path / "run")
    assert found.left_out == "Cards of the 60 heaviest of 70 clusters; the others are in the run."
    assert found.left_out in html(found)
    assert found.maps[0].caption.endswith(
        "The 24 heaviest clusters have colors, all others are grey."
    )
    assert "Bars of the 60 heaviest can be selected." in found.sizes.caption
    assert page(tmp_path / "run", data=False).left_out == ""


def test_no_url_that_a_run_names_is_asked_for(folder):
    found = open_run(folder / "fit-run")
    for data in ("https://host/rows.zarr", "file:///etc/hosts", str(folder / "none.zarr")):
        manifest = replace(found.result.manifest, sources={"data": data})
        assert report.origin.locate(manifest) is None


def test_all_that_comes_from_a_run_is_escaped(folder, undrawn):
    bad = "<script>alert('x')</script>\"&"
    found = page(folder / "fit-run", data=False)
    found = replace(
        found,
        store=bad,
        headline=bad,
        warnings=[bad],
        facts={bad: {bad: bad}},
        command=bad,
        unknown=bad,
    )
    found = replace(
        found, pictures=[Picture(bad, bad, "data:,")], tables=[Table(bad, bad, [bad], [[bad, bad]])]
    )
    text = html(replace(found, call=bad, versions={bad: bad}))
    assert text.count("<script") == Links(text).elements.count("script") == 1
    assert "&lt;script&gt;" in text


def test_a_run_named_like_markup_is_shown_as_it_is_called(folder, tmp_path, undrawn):
    shutil.copytree(folder / "fit-run", tmp_path / "<b>run<")
    text = html(page(tmp_path / "<b>run<", data=False))
    assert "&lt;b&gt;run&lt;" in text
    assert "<b>" not in text


def test_a_run_whose_name_is_not_in_unicode_has_a_page(folder, tmp_path, undrawn):
    name = os.fsdecode(bytes(tmp_path) + b"/r\xfc.zarr")
    shutil.copytree(folder / "fit-run", name)
    report.report(name, tmp_path / "page.html", data=False)
    assert r"r\udcfc.zarr" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_run_whose_name_is_not_in_unicode_is_compared(folder, tmp_path):
    name = os.fsdecode(bytes(tmp_path) + b"/r\xfc.zarr")
    shutil.copytree(folder / "fit-run", name)
    report.report([name, folder / "fit-run"], tmp_path / "page.html")
    assert r"r\udcfc.zarr" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_table_of_many_clusters_has_the_heaviest(folder, monkeypatch):
    monkeypatch.setattr(run_page, "MOST_LINES", 1)
    table = run_page.cluster_table(load(folder / "fit-run"), ["column 0", "column 2"])
    weights = load(folder / "fit-run").cluster_weights_
    assert [float(line[1]) for line in table.lines] == sorted(weights, reverse=True)[:1]
    left_out = f"{len(weights) - 1} lighter clusters are left out here, but not in the run"
    assert table.caption == f"The heaviest clusters first; {left_out}."
    assert table.columns[-2:] == ["column 0", "column 2"]


def test_columns_of_a_table_go_by_their_names(folder, tmp_path, monkeypatch):
    rows = pa.table(
        dict(
            zip(
                ["height", "age", "income"], zarr.open_array(folder / "rows.zarr")[:].T, strict=True
            )
        )
    )
    pq.write_table(rows, tmp_path / "table.parquet")
    given = f"{tmp_path}/table.parquet#income,height,age"
    fit(given, tmp_path / "run", DPMeans(60.0), columns=[0, 2])
    drawn = {}
    for name in ("profile", "row_map"):
        monkeypatch.setattr(
            run_page.plot, name, lambda *of, name=name, **also: drawn.update({name: (of, also)})
        )
    monkeypatch.setattr(run_page.plot, "svg", lambda _: "")
    monkeypatch.setattr(run_page.plot, "png", lambda _: b"")
    assert page(tmp_path / "run").tables[0].columns[-2:] == ["income", "age"]
    assert drawn["profile"][0][1] == drawn["row_map"][0][0].axes == ["income", "age"]


def test_what_a_graph_has_not_is_not_told_of_it(folder, undrawn):
    said = page(folder / "graph-run", data=False).facts["Input"]
    assert said.pop("data") == str(folder / "graph.npz")
    assert said == {"nodes": "15", "type": "float64", "stored with checksums": "yes"}


def test_centers_of_scaled_columns_are_told_in_units_of_the_data(folder):
    model = load(folder / "fit-run")
    line = run_page.cluster_table(model, ["column 0", "column 2"]).lines[0]
    center = model.cluster_centers_[int(line[0])] * model.feature_scale_
    assert line[-2:] == [f"{value:,.6g}" for value in center]


def test_a_page_of_many_clusters_says_that_it_leaves_the_tree_out(folder, monkeypatch, undrawn):
    monkeypatch.setattr(run_page, "MOST_LEAVES", 1)
    [tree] = [
        picture
        for picture in page(folder / "fit-run", data=False).pictures
        if picture.title == "Tree"
    ]
    assert tree.source is None
    assert tree.caption.startswith("Left out, because it takes long for more than 1 clusters.")
    assert Links(html(page(folder / "fit-run", data=False))).loaded == ["data:,"] * 3


# Paths and trees


@pytest.fixture(scope="module")
def stored(folder):
    """Paths and trees as the commands write them, by name."""
    rows, run_, weights = (str(folder / name) for name in ("rows.zarr", "fit-run", "weights.npy"))
    commands = {
        "prices": [
            "path",
            rows,
            "--search",
            "--halvings",
            "1",
            "--from",
            "50",
            "--to",
            "1e5",
            "--number",
            "6",
        ],
        "radii": [
            "path",
            rows,
            "--penalties",
            "4,90",
            "--weights",
            weights,
            "--columns",
            "0,2",
            "--scale",
            "std",
        ],
        "usual": ["path", rows, "--summary-rows", "100", "--metric", "cosine"],
        "tree": ["tree", run_],
        "levels": ["tree", run_, "--penalties", "10,1e9"],
    }
    for name, (command, data, *words) in commands.items():
        seed = ["--seed", "0", "--threads", "1"] if command == "path" else []
        result = CliRunner().invoke(main, [command, data, str(folder / name), *words, *seed])
        assert result.exit_code == 0, result.output
        (folder / f"{name}.txt").write_text(result.stdout)
    return folder


def told(stored, name):
    """What a page says, with its pictures drawn."""
    found = page(stored / name)
    assert all(each.source is not None for each in found.pictures)
    return found, html(found)


@pytest.mark.filterwarnings("ignore:at penalties up to .* fits saw a summary of fewer than 32 rows")
@pytest.mark.parametrize("name", ["prices", "radii", "usual", "tree", "levels"])
def test_what_a_page_of_a_path_or_tree_says_makes_it_again(
    stored, name, tmp_path, monkeypatch, undrawn
):
    monkeypatch.chdir(tmp_path)
    found = page(stored / name)
    assert CliRunner().invoke(main, shlex.split(found.command)[1:]).exit_code == 0
    for made in ("command", "call"):
        if made == "call":
            shutil.rmtree("again.zarr")
            exec(found.call, {})
        for each in (stored / name).rglob("c/*"):  # chunks are compressed the same
            if each.is_file():
                assert (
                    Path("again.zarr") / each.relative_to(stored / name)
                ).read_bytes() == each.read_bytes()


def test_a_page_of_a_path_has_its_intervals_and_how_halves_agree(stored):
    found, text = told(stored, "prices")
    path = read_path(stored / "prices")
    intervals, tried = found.tables
    assert [line[2] for line in intervals.lines] == [
        str(each.n_clusters) for each in path.intervals
    ]
    assert [line[-1] for line in tried.lines] == [f"{index:.2f}" for index in path.stability]
    assert found.facts["Result"]["middle of the interval, a price"] == f"{path.penalty:.9g}"
    assert (
        found.headline
        == f"6 prices: from {path.n_clusters[0]} clusters to {path.n_clusters[-1]} of 300 rows"
    )
    assert found.warnings == [UNCHECKED]
    assert len(Links(text).loaded) == 1
    assert [
        page(stored / each).pictures[0].caption.endswith("is shaded.")
        for each in ("prices", "radii")
    ] == [True, False]


def test_a_page_of_a_path_warns_of_a_summary_and_of_rows_in_memory(
    stored, tmp_path, monkeypatch, undrawn
):
    monkeypatch.chdir(tmp_path)
    assert [warning.split()[:4] for warning in page(stored / "usual").warnings] == [
        ["Fits", "saw", "a", "summary"],
        ["Far", "rows,", "which", "open"],
        ["At", "penalties", "up", "to"],
        UNCHECKED.split()[:4],
    ]
    rows = zarr.open_array(stored / "rows.zarr")[:]
    write_path(penalty_path(rows, [1e5], search=True, random_state=0), tmp_path / "path.zarr")
    found = page(
        tmp_path / "path.zarr"
    )  # of one penalty, at which no number can stand over any length
    assert found.headline == "1 price: 1 cluster of 300 rows"
    assert [table.title for table in found.tables] == ["Penalties tried"]
    assert found.warnings[0].startswith(
        "No interval lies between the largest number of clusters and one"
    )
    assert found.command is None
    assert "where X are the rows: they were in memory" in html(found)
    exec(found.call, {"X": rows})


def test_a_page_of_a_tree_has_its_levels_and_who_is_together(stored):
    found, text = told(stored, "tree")
    tree = read_tree(stored / "tree")
    levels, clusters = found.tables
    assert [line[1] for line in levels.lines] == [
        str(each.n_clusters) for each in (tree.leaves, *tree.levels)
    ]
    for line in clusters.lines:
        assert line[2:] == [str(level.clusters[int(line[0])]) for level in tree.levels]
    assert len(Links(text).loaded) == 1


def test_a_tree_of_one_cluster_and_of_a_model_in_memory_has_a_page(tmp_path):
    write_tree(cluster_tree(DPMeans(9.0).fit(np.zeros((5, 2)))), tmp_path / "tree.zarr")
    found = page(tmp_path / "tree.zarr")
    assert found.pictures[0].caption.startswith(
        "Not drawn: the tree has no levels at which clusters join"
    )
    assert found.command is None
    assert "where model is the fitted estimator" in html(found)


def test_a_page_of_a_path_reads_no_rows_and_no_page_is_of_predictions(stored, tmp_path):
    with pytest.raises(
        InputError, match="prices holds a path, whose page needs no rows: leave out data"
    ):
        report.report(stored / "prices", tmp_path / "out.html", data=np.zeros((3, 2)))
    assert report.run_with_rows(stored / "tree") is None
    arguments = ["report", str(stored / "tree"), str(tmp_path / "out.html")]
    refused = CliRunner().invoke(main, [*arguments, "--threads", "2", "--memory-limit", "1GB"])
    assert refused.exit_code == 2
    assert "no rows are read for this page: leave out --threads, --memory-limit" in refused.stderr
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    arguments = [
        "predict",
        str(stored / "fit-run"),
        str(stored / "rows.zarr"),
        str(tmp_path / "labels"),
        "--threads",
        "1",
    ]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    with pytest.raises(InputError, match="labels holds predictions, not a run"):
        report.report(tmp_path / "labels", tmp_path / "labels.html")


@pytest.mark.parametrize("name", ["prices", "radii", "tree"])
def test_show_prints_what_the_command_printed(stored, name):
    shown = CliRunner().invoke(main, ["show", str(stored / name)])
    assert shown.exit_code == 0, shown.output
    printed = (stored / f"{name}.txt").read_text()
    assert shown.stdout == printed.replace(
        " --threads 1\n", "\n"
    )  # of the command that made it, not of the path
    event = json.loads(CliRunner().invoke(main, ["show", str(stored / name), "--json"]).stdout)
    assert (event["event"], event["out"]) == (
        "tree" if name == "tree" else "path",
        str(stored / name),
    )


# The file


@pytest.mark.parametrize("arguments", [[], ["run.zarr"]])
def test_a_report_without_a_page_says_what_to_give(arguments):
    result = CliRunner().invoke(main, ["report", *arguments])
    assert result.exit_code == 2
    assert "give a run, path or tree and then the page to write" in result.stderr


def test_a_report_is_written_once_and_over_another_with_force(folder, tmp_path, undrawn):
    out = tmp_path / "out.html"
    arguments = ["report", str(folder / "fit-run"), str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert str(out) in result.stdout
    first = out.read_bytes()
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "holds a report: --force writes over it" in result.stderr
    assert CliRunner().invoke(main, [*arguments, "--force", "--threads", "1"]).exit_code == 0
    assert out.read_bytes() == first
    assert [each.name for each in tmp_path.iterdir()] == ["out.html"]


def test_a_report_has_the_ending_of_a_page(folder, tmp_path):
    with pytest.raises(InputError, match=r"end its path with \.html, got \S+out\.pdf$"):
        report.report(folder / "fit-run", tmp_path / "out.pdf")
    assert not (tmp_path / "out.pdf").exists()


def test_nothing_but_a_report_is_written_over(folder, tmp_path):
    run, other = folder / "fit-run", tmp_path / "notes.html"
    other.write_text("<!DOCTYPE html>mine")
    with pytest.raises(
        InputError, match="exists and is not a report of this package, so it is never written over"
    ):
        report.report(run, other, force=True)
    with pytest.raises(InputError, match=r"there is no folder .* to put out.html in"):
        report.report(run, tmp_path / "none" / "out.html")
    with pytest.raises(InputError, match=r"lies within .*fit-run: give another path"):
        report.report(run, run / "out.html")
    with pytest.raises(InputError, match="a report is written to a file of this machine"):
        report.report(run, "s3://bucket/out.html")
    with pytest.raises(InputError, match="holds no run of this package"):
        report.report(tmp_path / "none", tmp_path / "out.html")
    assert other.read_text() == "<!DOCTYPE html>mine"


def test_a_folder_that_is_closed_to_the_user_is_refused_before_anything_is_drawn(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # root may write all
    monkeypatch.setattr(report, "page", None)
    with pytest.raises(InputError, match=r"this user may not write out\.html in \S+: change the p"):
        report.report(folder / "fit-run", tmp_path / "out.html")
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_leaves_nothing(folder, tmp_path, monkeypatch, undrawn):
    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        report.report(folder / "fit-run", tmp_path / "out.html", data=False)
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_rows_from_elsewhere_or_none(folder, tmp_path, undrawn):
    arguments = ["report", str(folder / "fit-run"), str(tmp_path / "out.html")]
    moved = shutil.copytree(folder / "rows.zarr", tmp_path / "moved.zarr")
    assert (
        CliRunner().invoke(main, [*arguments, "--data", str(moved), "--threads", "1"]).exit_code
        == 0
    )
    assert "column 0 and column 2" in (tmp_path / "out.html").read_text()
    assert CliRunner().invoke(main, [*arguments, "--no-data", "--force"]).exit_code == 0
    assert "column 0 and column 2" not in (tmp_path / "out.html").read_text()
    result = CliRunner().invoke(main, [*arguments, "--no-data", "--force", "--workers", "2"])
    assert result.exit_code == 2
    assert "no rows are read for this page: leave out --workers" in result.stderr
    result = CliRunner().invoke(main, [*arguments, "--no-data", "--data", "x"])
    assert result.exit_code == 2
    assert "give one of them" in result.stderr


def test_a_map_of_columns_comes_first_and_centers_are_images(folder, tmp_path, undrawn):
    arguments = ["report", str(folder / "search-run"), str(tmp_path / "out.html"), "--threads", "1"]
    result = CliRunner().invoke(main, [*arguments, "--map", "2,column 0", "--image", "1x1x3"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out.html").read_text()
    assert text.index("column 2 and column 0") < text.index("Clusters apart")
    k = load(folder / "search-run").n_clusters_
    assert text.count('<img class="center" src="data:image/png;base64,') == k
    assert "in weight" in text
    found = page(folder / "search-run", data=folder / "rows.zarr", columns=("column 0",))
    assert found.maps[0].title == "column 0"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--map", "0,9"], "columns must be one or two different columns of the fit"),
        (["--map", "0,1", "--no-data"], "columns are for a map of the rows, which are not read"),
        (["--image", "2x2"], "as many numbers as the centers have columns, 3, got (2, 2)"),
        (["--image", "3"], "must be a height and a width such as 28x28, got '3'"),
        (["--image", "3x0"], "image_shape must be an integer >= 1, got 0"),
    ],
)
def test_maps_and_images_that_cannot_be_are_refused(folder, tmp_path, undrawn, wrong, message):
    arguments = ["report", str(folder / "search-run"), str(tmp_path / "out.html"), *wrong]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out.html").exists()


def test_only_rows_and_centers_have_maps_and_images(folder):
    with pytest.raises(InputError, match="GraphCutDPMeans has no centers among them"):
        page(folder / "graph-run", columns=(0, 1))
    with pytest.raises(InputError, match="has no centers of rows"):
        page(folder / "graph-run", image_shape=(3, 1))


def test_without_matplotlib_the_command_says_how_to_get_it(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [
        each
        for each in sys.modules
        if each.startswith(("dask_dpmeans.figures.plot", "dask_dpmeans.report"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    for package, name in ((dask_dpmeans, "report"), (dask_dpmeans.figures, "plot")):
        monkeypatch.delattr(package, name)
    result = CliRunner().invoke(
        main, ["report", str(folder / "fit-run"), str(tmp_path / "out.html")]
    )
    assert result.exit_code == 2
    assert 'pip install "dask-dpmeans[plot]"' in result.stderr


def test_a_run_says_where_its_input_was(folder):
    manifest = read_run(folder / "hdp-run").manifest
    assert manifest.sources == {
        "data": str(folder / "rows.zarr"),
        "groups": str(folder / "groups.npy"),
        "sample_weight": None,
    }


def test_a_graph_too_large_to_draw_is_told(tmp_path):
    blocks = csr_array(np.kron(np.eye(170), np.ones((3, 3)) - np.eye(3)))
    save_npz(tmp_path / "graph.npz", blocks)
    fit(tmp_path / "graph.npz", tmp_path / "run", GraphCutDPMeans(-0.5, random_state=0))
    found = page(tmp_path / "run")
    assert found.maps == []
    assert "The graph has 510 nodes; graphs of up to 500 are drawn." in found.notes


def test_the_pair_that_is_hardest_to_tell_apart_has_most_rows_in_doubt():
    def cluster(number, weight, *neighbors):
        near = [Neighbor(other, 1.0, doubt) for other, doubt in neighbors]
        return Portrait(number, weight, weight / 103, 1.0, None, 0.1, [], near, [], [])

    heavy = cluster(0, 100.0, (1, 0.0), (2, 0.25))
    light = [cluster(1, 2.0, (0, 0.9)), cluster(2, 1.0, (1, 0.0))]
    found = Overview([], [], [], [heavy, *light], 0, 0, 0.3)
    assert sentences._doubts(found)[1] == (
        "Clusters 0 and 2 are the hardest to tell apart: 25% of the rows of 0 could also belong to 2"
    )
    sure = [each._replace(neighbors=[Neighbor(0, 1.0, 0.0)]) for each in (heavy, *light)]
    assert len(sentences._doubts(found._replace(clusters=sure))) == 1


def test_rows_of_a_run_without_their_groups_are_said_to_lie_at_the_nearest_center(tmp_path):
    rng = np.random.default_rng(0)
    rows, groups = (
        rng.normal(size=(200, 2)) + 9 * rng.integers(3, size=(200, 1)),
        rng.integers(4, size=200),
    )
    fit(rows, tmp_path / "run", HDPMeans(20.0, 60.0, random_state=0), groups=groups)
    found = page(tmp_path / "run", data=rows)
    assert UNGROUPED in found.warnings
    assert all(each.doubt is None for each in found.overview.clusters)


def test_the_template_is_part_of_the_package():
    for name in ("page.html", "page.css", "page.js"):
        assert (Path(report.__file__).parent / name).is_file()


@pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
)
def test_a_page_opens_in_chromium(written, tmp_path):
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    shot = tmp_path / "page.png"
    words = f"{CHROMIUM} --headless --no-sandbox {quiet} --disable-sync --hide-scrollbars --window-size=900,3600"
    where = [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", written.as_uri()]
    subprocess.run([*words.split(), *where], capture_output=True, check=True, timeout=60)
    pixels = image.imread(shot)[..., :3]
    assert pixels.shape[:2] == (3600, 900)
    inked = (pixels < 0.5).all(axis=2)
    assert inked.mean() > 0.005  # letters and pictures
    colored = np.ptp(pixels, axis=2) > 0.4
    assert colored.any()  # the profile's heat map: pictures are shown
