"""The commands of the manifests, run here: scheduler, two workers and the job, which is killed and goes on."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from targets import BIN, Machine, commands, containers, machine, services, write_rows

from dask_dpmeans import load
from dask_dpmeans.cli import main

ENVIRONMENT = dict(os.environ) | {"OMP_NUM_THREADS": "1"}


def started(here: Machine, target: str, **environment: str) -> None:
    """Rows, a scheduler and two workers."""
    write_rows(here.folder / "data" / "input.zarr")
    said = commands(target)
    here.start(said["scheduler"], **environment)
    assert here.figures("/health") == "ok"
    for number in range(2):
        here.start(said["worker"], number, **environment)


def interrupted(here: Machine, target: str, number: signal.Signals) -> int:
    """The exit code of a job that is sent a signal after its second step."""
    job = here.start(commands(target)["job"])
    assert job.stdout is not None
    steps = [json.loads(next(job.stdout)) for _ in range(2)]
    assert [step["step"] for step in steps] == [1, 2], here.said("fit-0")
    job.send_signal(number)
    return job.wait(timeout=60)


def resumed(here: Machine, target: str) -> list[dict]:
    """What the same command says when it is run again, and ends well."""
    job = here.start(commands(target)["job"])
    out, _ = job.communicate(timeout=120)
    assert job.returncode == 0, here.said("fit-0")
    return [json.loads(line) for line in out.splitlines()]


def assert_undisturbed(run: Path, data: Path, other: Path) -> None:
    """The run has the bytes of a fit by threads that nobody stopped."""
    seed = str(load(run).random_state_)
    words = ["fit", str(data), str(other), "--penalty", "4", "--seed", seed, "--threads", "1"]
    assert CliRunner().invoke(main, words).exit_code == 0
    ours, theirs = load(run), load(other)
    assert ours.cluster_centers_.tobytes() == theirs.cluster_centers_.tobytes()
    assert ours.labels_.compute().tobytes() == theirs.labels_.compute().tobytes()


@pytest.mark.parametrize(
    ("target", "number", "code"),
    [("compose.yaml", signal.SIGTERM, 3), ("daskjob.yaml", signal.SIGKILL, -9)],
)
def test_the_same_command_begins_a_fit_goes_on_with_one_that_was_killed_and_tells_of_one_that_is_done(
    target: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    data = tmp_path / "data" / "input.zarr"
    with machine(tmp_path, ENVIRONMENT) as here:
        started(here, target)
        assert interrupted(here, target, number) == code
        events = resumed(here, target)
        assert events[0]["step"] >= 3
        assert events[-1]["event"] == "done"
        assert [event["event"] for event in resumed(here, target)] == ["done"]
        assert_undisturbed(tmp_path / "data" / "run.zarr", data / "rows", tmp_path / "other.zarr")
        data.rename(tmp_path / "elsewhere")
        job = here.start(commands(target)["job"])
        job.communicate(timeout=60)
        assert job.returncode == 2, "what Kubernetes does not try again"
        assert "input.zarr" in here.said("fit-0")


def test_compose_and_kubernetes_ask_the_scheduler_for_its_health_and_the_operator_for_workers(
    tmp_path: Path,
) -> None:
    environment = {
        each["name"]: each["value"] for each in containers("daskcluster.yaml")["scheduler"]["env"]
    }
    with machine(tmp_path, ENVIRONMENT) as here:
        here.start(commands("daskcluster.yaml")["scheduler"], **environment)
        assert (
            here.figures(
                containers("daskcluster.yaml")["scheduler"]["livenessProbe"]["httpGet"]["path"]
            )
            == "ok"
        )
        assert json.loads(here.figures("/api/v1/adaptive_target")) == {"workers": 0}
        _, program, *words = services()["scheduler"]["healthcheck"]["test"]
        probe = [str(BIN / program), *(word.replace("8787", here.ports["8787"]) for word in words)]
        assert subprocess.run(probe).returncode == 0
        here.end()
        assert subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 1
