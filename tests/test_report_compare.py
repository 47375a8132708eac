"""The page that compares runs: what it says of their objectives, labels and clusters, and what it refuses."""

import re
import shlex

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from dask_dpmeans import (
    CorruptStoreError,
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    SpectralDPMeans,
    fit,
    load,
)
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli import main
from dask_dpmeans.figures.data import Change, changes, flows
from dask_dpmeans.report import page, report, sentences
from dask_dpmeans.report.page import Picture, html
from dask_dpmeans.selection.penalty import penalty_path, write_path

CENTERS = np.array([[0.0, 0.0], [0.0, 8.0], [60.0, 0.0], [60.0, 60.0]])
ROWS = CENTERS[np.arange(200) % 4] + np.random.default_rng(0).uniform(-1, 1, (200, 2))
"""Four squares; the first two are close."""
RUNS = {
    "four": (ROWS, DPMeans(9.0)),
    "three": (ROWS, DPMeans(100.0)),
    "search": (ROWS, DPMeans(300.0, search=True, random_state=0)),
    "permuted": (ROWS, DPMeans(9.0, init=CENTERS[::-1])),
    "scaled": (ROWS, DPMeans(1.0)),
    "cosine": (ROWS + 100, DPMeans(0.01, metric="cosine")),
    "column": (ROWS, DPMeans(9.0)),
    "shapes": (ROWS, LinkageDPMeans(n_clusters=4, random_state=0)),
    "kernel": (ROWS, KernelDPMeans(0.5, gamma=0.1)),
    "poly": (ROWS, KernelDPMeans(0.5, kernel="poly")),
    "spectral": (ROWS, SpectralDPMeans(20.0, random_state=0)),
    "sets": (ROWS, HDPMeans(9.0, 9.0)),
    "others": (ROWS + 1, DPMeans(9.0)),
    "fewer": (ROWS[:150], DPMeans(9.0)),
    "weighted": (ROWS, DPMeans(9.0)),
}
READ = {
    "scaled": {"scale": "std"},
    "column": {"columns": [0]},
    "weighted": {"sample_weight": np.full(200, 2.0)},
    "sets": {"groups": np.arange(200) // 100},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of each."""
    folder = tmp_path_factory.mktemp("compared")
    for name, (rows, model) in RUNS.items():
        fit(rows, folder / name, model, **READ.get(name, {}))
    return folder


@pytest.fixture
def drawn():
    """Pictures are drawn."""


@pytest.fixture(autouse=True)
def undrawn(request, monkeypatch):
    """Pictures are not drawn, which is most of the work."""
    if "drawn" not in request.fixturenames:
        shown = staticmethod(lambda title, caption, draw: Picture(title, caption, "data:,"))
        monkeypatch.setattr(Picture, "of", shown)


def compared(folder, *names):
    return page([folder / name for name in names])


def table(found, title):
    """The lines of a table of a page, by their names."""
    [lines] = [each.lines for each in found.tables if each.title == title]
    return {line[0]: line[1:] for line in lines}


def test_a_run_compared_with_itself_is_the_same(folder):
    found = compared(folder, "four", "four")
    assert found.headline == "2 runs compared: 4 and 4 clusters of 200 rows"
    assert found.sentence == (
        "A and B agree with an adjusted Rand index of 1.00 (1: the same clusters, 0: as by chance). "
        "All 4 clusters of A are the same in B."
    )
    [section] = found.first
    assert section.text == "4 clusters stayed: 0 as 0, 1 as 1, 2 as 2, 3 as 3."
    assert [line[0] for line in section.table.lines] == ["stayed"] * 4
    assert table(found, "Agreement") == {"A and B": ["1.0000", "1.0000"]}
    assert found.warnings == []


def test_the_numbers_of_clusters_do_not_matter(folder):
    found = compared(folder, "four", "permuted")
    assert (
        load(folder / "four").labels_.compute()[0] != load(folder / "permuted").labels_.compute()[0]
    )
    assert table(found, "Agreement") == {"A and B": ["1.0000", "1.0000"]}
    assert {line[0] for line in found.first[0].table.lines} == {"stayed"}


def test_a_split_is_told_and_backwards_it_is_a_merge(folder):
    one, four = load(folder / "three").labels_.compute(), load(folder / "four").labels_.compute()
    both = " and ".join(f"{four[row]} (25%)" for row in sorted((0, 1), key=lambda row: four[row]))
    found = compared(folder, "three", "four")
    assert found.first[0].text.startswith(f"Cluster {one[0]} (50%) of A became {both} of B. ")
    assert "2 clusters stayed: " in found.first[0].text
    assert "Of the 3 clusters of A, 2 stayed and 1 split." in found.sentence
    found = compared(folder, "four", "three")
    assert found.first[0].text.startswith(f"Clusters {both} of A became {one[0]} (50%) of B. ")
    assert "Of the 4 clusters of A, 2 stayed and 2 merged." in found.sentence
    flows = next(each for each in found.tables if each.title == "Flows from A to B")
    assert [line[2:5] for line in flows.lines] == [["50", "25.00%", "100.00%"]] * 4
    assert sorted(line[5] for line in flows.lines) == ["100.00%", "100.00%", "50.00%", "50.00%"]


def test_objectives_are_compared_at_the_penalty_of_each(folder):
    names = "four", "three", "search"
    models = [load(folder / name) for name in names]
    found = compared(folder, *names)
    lines = table(found, "The runs side by side")
    for letter, model in zip("ABC", models, strict=True):
        wanted = [each.inertia_ + model.penalty_ * each.n_clusters_ for each in models]
        assert lines[f"J at the penalty of {letter}"] == [f"{value:.9g}" for value in wanted]
    assert lines["objective, J"] == [f"{model.objective_:.9g}" for model in models]
    assert lines["clusters, k"] == [str(model.n_clusters_) for model in models]
    assert lines["penalty"] == ["9, a radius of 3", "100, a radius of 10", "300, a price"]
    assert lines["search"] == ["False", "False", "True"]
    at_two = [each.inertia_ + 100 * each.n_clusters_ for each in models]
    lower = 100 * (1 - min(at_two) / at_two[1])
    assert f"At the penalty of B, J of A is {lower:.0f}% lower." in found.sentence


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("four", "scaled"), "scaled differs: False and True"),
        (("four", "column"), r"columns differs: None and \(0,\)"),
        (("four", "weighted"), "weighted differs: False and True"),
        (("four", "cosine"), "metric differs: 'euclidean' and 'cosine'"),
        (("four", "kernel"), "method differs: 'DPMeans' and 'KernelDPMeans'"),
        (("kernel", "poly"), "gamma differs: 0.1 and None"),
        (("four", "sets"), r"the objective of B is inertia \+ penalties x clusters"),
        (("sets", "sets"), r"the objective of A is inertia \+ penalties x clusters"),
        (("four", "shapes"), r"the objective of B is cut \+ penalty x clusters"),
        (
            ("spectral", "four"),
            r"of A is inertia \+ threshold x clusters, of features that it has learned",
        ),
    ],
)
def test_objectives_that_cannot_be_compared_are_left_out_with_the_reason(folder, names, reason):
    found = compared(folder, *names)
    [caption] = [each.caption for each in found.tables if each.title == "The runs side by side"]
    assert "J of A and B at an equal penalty makes no sense: " in caption

    assert re.search(reason, caption), caption
    lines = table(found, "The runs side by side")
    for letter, other in (("A", 1), ("B", 0)):
        values = lines.get(f"J at the penalty of {letter}", ["", ""])
        assert values[other] == ""


def test_two_runs_of_one_kernel_have_objectives_to_compare(folder, tmp_path):
    fit(ROWS, tmp_path / "run", KernelDPMeans(0.1, gamma=0.1))
    found = page([folder / "kernel", tmp_path / "run"])
    models = [load(folder / "kernel"), load(tmp_path / "run")]
    wanted = [f"{each.inertia_ + 0.1 * each.n_clusters_:.9g}" for each in models]
    assert table(found, "The runs side by side")["J at the penalty of B"] == wanted


def test_runs_of_other_rows_are_refused(folder):
    with pytest.raises(
        InputError, match=r"four is of 200 rows and .*fewer is of 150 rows: only runs"
    ):
        compared(folder, "four", "fewer")
    with pytest.raises(
        InputError, match=r"others is of rows of fingerprint .* Fit both to the same"
    ):
        compared(folder, "three", "four", "others")


def test_a_page_says_if_it_is_not_known_whether_rows_are_the_same(folder):
    [warning] = compared(folder, "four", "scaled").warnings
    assert warning == (
        "It is not known whether the rows of A and B are the same, in the same order: the fits read them differently "
        "(scaled)."
    )
    [warning] = compared(folder, "four", "cosine").warnings
    assert warning.endswith("(metric).")
    assert compared(folder, "four", "shapes", "kernel").warnings == []


def test_rows_count_once_whatever_their_weights(folder):
    found = compared(folder, "four", "weighted")
    [caption] = [each.caption for each in found.tables if each.title == "Agreement"]
    assert caption.endswith("Rows count once each, whatever their weights.")


def test_noise_is_a_class_of_its_own(folder, tmp_path):
    rows = ROWS.copy()
    rows[:3] = [[400.0, 0.0], [0.0, 400.0], [-400.0, 0.0]]
    linked = LinkageDPMeans(n_clusters=4, noise=0.02, random_state=0)
    fit(rows, tmp_path / "linked", linked)
    assert (load(tmp_path / "linked").labels_.compute() == -1).any()
    fit(rows, tmp_path / "run", DPMeans(9.0))
    found = page([tmp_path / "linked", tmp_path / "run"])
    [caption] = [each.caption for each in found.tables if each.title == "Agreement"]
    assert caption.endswith("Rows without a cluster are a class of their own.")
    assert "noise (" in html(found)
    same = [sentences.changes_summary(changes(flows([np.array([0, 0, 1, -1])] * 2)), "A", "B")]
    assert same == ["All 2 clusters of A are the same in B."]


def test_three_runs_have_a_section_for_neighbors_and_agreement_for_all(folder):
    found = compared(folder, "four", "three", "search")
    assert [section.title for section in found.first] == [
        "What became of the clusters of A in B",
        "What became of the clusters of B in C",
    ]
    assert list(table(found, "Agreement")) == ["A and B", "A and C", "B and C"]
    assert [each.title for each in found.tables][-2:] == ["Flows from A to B", "Flows from B to C"]
    assert [picture.title for picture in found.maps] == ["Flows"]


def test_a_run_that_has_not_converged_is_named(folder, tmp_path):
    with pytest.warns(match="before it converged"):
        fit(ROWS, tmp_path / "run", DPMeans(9.0, max_iter=1))
    [warning] = page([folder / "four", tmp_path / "run"]).warnings
    assert warning.startswith("B: ")


def test_many_changes_and_flows_are_cut_and_counted(tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-100, 100, (600, 2))
    for name, penalty in (("fine", 16.0), ("coarse", 300.0)):
        fit(rows, tmp_path / name, DPMeans(penalty))
    found = page([tmp_path / "fine", tmp_path / "coarse"])
    flows = next(each for each in found.tables if each.title == "Flows from A to B")
    assert len(flows.lines) == 100
    assert "smaller flows, " in flows.caption
    assert " smaller changes are in the table below." in found.first[0].text
    assert " more of A became " in found.first[0].text


def test_the_page_is_one_file_whose_command_makes_it_again(drawn, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report([folder / "four", folder / "three"], "out.html")
    text = (tmp_path / "out.html").read_text()
    assert text.count("data:image/svg+xml;base64,") == 1
    assert "2 runs compared" in text
    found = compared(folder, "four", "three")
    assert CliRunner().invoke(main, shlex.split(found.command)[1:]).exit_code == 0
    assert (tmp_path / "compared.html").read_text() == text
    (tmp_path / "compared.html").unlink()
    exec(found.call, {})
    assert (tmp_path / "compared.html").read_text() == text


def test_the_command_compares_runs_and_its_last_argument_is_the_page(folder, tmp_path):
    runs = [str(folder / name) for name in ("four", "three", "search")]
    done = CliRunner().invoke(main, ["report", *runs, str(tmp_path / "out.html")])
    assert (done.exit_code, done.output) == (0, f"{', '.join(runs)}: {tmp_path / 'out.html'}\n")
    again = CliRunner().invoke(main, ["report", *runs, str(tmp_path / "out.html")])
    assert again.exit_code == 2
    assert "holds a report: --force writes over it" in again.output
    again = CliRunner().invoke(main, ["report", *runs, str(tmp_path / "out.html"), "--force"])
    assert again.exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["four", "fewer", "out.html"], "only runs over the same rows"),
        (["four", "three", "out.html", "--data", "x"], "needs no rows: leave out --data"),
        (["four", "three", "out.html", "--threads", "1"], "leave out --threads"),
        (["four", "path", "out.html"], "holds a path"),
        (["four"], "give a run, path or tree and then the page to write"),
        (["four"] * 9 + ["out.html"], "from 2 to 8 runs to compare, got 9"),
        (["four", "three", "four/out.html"], "lies within"),
        (["four", "three", "search"], "is not a report of this package"),
    ],
)
def test_the_command_says_what_cannot_be_compared(folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    if not (folder / "path").exists():
        write_path(penalty_path(ROWS, [9.0, 100.0]), folder / "path")
    done = CliRunner().invoke(main, ["report", *words])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_runs_are_compared_by_a_list_of_two_to_eight(folder, tmp_path):
    with pytest.raises(InputError, match="from 2 to 8 runs to compare, got 1"):
        report([folder / "four"], tmp_path / "out.html")
    with pytest.raises(InputError, match="from 2 to 8 runs to compare, got 0"):
        report([], tmp_path / "out.html")
    with pytest.raises(InputError, match="needs no rows: leave out data"):
        report([folder / "four"] * 2, tmp_path / "out.html", data=ROWS)
    opened = [open_run(folder / name) for name in ("four", "three")]
    assert page(opened).headline == "2 runs compared: 4 and 3 clusters of 200 rows"


def test_damaged_labels_are_an_error_that_names_them(tmp_path):
    for name in ("one", "other"):
        fit(ROWS, tmp_path / name, DPMeans(9.0))
    labels = zarr.open_array(tmp_path / "other/labels", mode="r+")
    labels[:] = np.roll(labels[:], 1)
    with pytest.raises(CorruptStoreError, match="other/labels"):
        page([tmp_path / "one", tmp_path / "other"])


def test_a_single_cluster_that_stays_is_said_in_the_singular():
    stayed = Change("stayed", [0], [0], 9, 1.0)
    assert (
        sentences.changes_summary([stayed], "A", "B") == "The only cluster of A is the same in B."
    )
