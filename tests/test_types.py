"""What a type checker tells who calls this package: what comes back, and which arguments there are not."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[1]
CALLS = """\
from dask_dpmeans import DPMeans, HDPMeans, dry_run, fit, metrics, penalty, predict
from dask_dpmeans import GibbsMixture
from dask_dpmeans.figures.plot import density, profile
from dask_dpmeans.report import report

reveal_type(fit("a", "b", DPMeans(3.0)))  # is: DPMeans
reveal_type(fit("a", "b", HDPMeans(3.0, 4.0), groups="g", threads=3))  # is: HDPMeans
reveal_type(fit("a", "b", GibbsMixture()))  # is: GibbsMixture
fit("a", "b", DPMeans(3.0), columns=[0, 2], scale="std", storage_options={"anon": True}, fill_missing=True)
fit("a", "b", DPMeans(3.0), on_step=lambda number, record, n_rows: None, on_pass=lambda found: None)
fit("a", "b", DPMeans(3.0), threds=3)  # error: threds
fit("a", "b", DPMeans(3.0), threads="three")  # error: threads
fit("a", "b", DPMeans(3.0), scale="standard")  # error: scale
dry_run("a", "b", DPMeans(3.0), threads=3)
dry_run("a", "b", DPMeans(3.0), on_step=print)  # error: on_step
predict("a", "b", "c", threads=3)
predict("a", "b", "c", columns=[1])  # error: columns
metrics.partition("a", "b", threads=3)
metrics.partition("a", "b", threds=3)  # error: threds
metrics.objective("a", "b", 3.0, metric="cosine", threads=3)
metrics.inertia("a", "b", metrik="cosine")  # error: metrik
metrics.agreement("a", "b", memory_limit=2**30)
metrics.v_measure_score("a", "b", memory="4GB")  # error: memory
penalty.farthest_first("a", 3, threads=2)
penalty.farthest_first("a", 3, thread=2)  # error: thread
penalty.penalty_path("a", columns=[0], threads=2)
penalty.penalty_path("a", column=[0])  # error: column
penalty.penalty_for("a", 3, client=None)
penalty.penalty_for("a", 3, clients=None)  # error: clients
penalty.hdp_penalties("a", 3, 4, groups="g", threads=2)
penalty.hdp_penalties("a", 3, 4, group="g")  # error: group
profile(DPMeans(3.0), max_features=3)
profile(DPMeans(3.0), max_feature=3)  # error: max_feature
density("a", DPMeans(3.0), bins=3, threads=2)
density("a", DPMeans(3.0), bin=3)  # error: bin
report("a", "b", threads=2)
report("a", "b", thread=2)  # error: thread
"""


@pytest.mark.timeout(600)
def test_a_type_checker_knows_what_fit_returns_and_which_options_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls.py"
    calls.write_text(CALLS)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = [
        "--config-file",
        "",
        "--follow-imports",
        "silent",
        "--ignore-missing-imports",
        "--no-error-summary",
    ]
    said, error, _ = api.run([*options, "--cache-dir", str(tmp_path / "cache"), str(calls)])
    assert not error
    lines = re.findall(r"calls\.py:(\d+): (?:error:|note: Revealed type is) (.*)", said)
    found = {int(number): text for number, text in lines}
    wanted = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(CALLS.splitlines(), 1)
        if "# " in line
    }
    assert found.keys() == wanted.keys(), said
    for number, expected in wanted.items():
        kind, _, name = expected.partition(": ")
        assert re.search(rf'\.{name}["\]]' if kind == "is" else rf'"{name}"', found[number]), found[
            number
        ]
