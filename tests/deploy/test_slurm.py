"""`fit.sbatch`, under a Slurm of one node on loopback, and with stand-ins for what it calls of Slurm."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
import zarr
from targets import BIN, DEPLOY, free_ports

from dask_dpmeans import load

SCRIPT = DEPLOY / "slurm" / "fit.sbatch"
STEPS = 60
"""More than pass before a signal arrives."""
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,sched_interval=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=16000
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def wait_until(what: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait until something is so."""
    end = monotonic() + seconds
    while not what():
        assert monotonic() < end, "it never came to be"
        sleep(0.1)


@dataclass
class Job:
    """A folder of submission, and what the job in it wrote."""

    folder: Path

    def __post_init__(self) -> None:
        rows = zarr.create_array(
            self.folder / "rows.zarr", shape=(100_000, 2), chunks=(20_000, 2), dtype="f4"
        )
        rows[:] = np.random.default_rng(0).uniform(-12, 12, rows.shape)

    @property
    def words(self) -> list[str]:
        """The options of the script."""
        return ["rows.zarr", "run.zarr", "--penalty", "4", "--tol", "0", "--max-iter", str(STEPS)]

    def log(self) -> str:
        """All that was written to the log."""
        file = self.folder / "job.log"
        return file.read_text() if file.exists() else ""

    def steps(self) -> list[int]:
        """The numbers of the steps that were told."""
        return [
            json.loads(line)["step"]
            for line in self.log().splitlines()
            if line.startswith('{"event": "step"')
        ]

    def check(self) -> None:
        """The run is whole, and no step was made twice; one may go untold that was committed as the signal came."""
        told = self.steps()
        assert told == sorted(set(told)), self.log()
        assert told[0] == 1, self.log()
        assert told[-1] == STEPS, self.log()
        assert len(told) >= STEPS - 1, self.log()
        assert '"event": "done"' in self.log()
        assert load(self.folder / "run.zarr").n_iter_ == STEPS
        assert {path.name for path in self.folder.glob("dpmeans-*")} == set()


# Stand-ins

STAND_INS = {
    "srun": """
        tasks=1
        while [[ $1 == --* ]]; do
            [[ $1 != --ntasks=* ]] || tasks=${1#*=}
            shift
        done
        echo "$tasks $*" >>srun.log
        for ((task = 0; task < tasks; task++)); do "$@" & done
        trap 'kill $(jobs -p)' TERM
        wait""",
    "squeue": "date --date '+600 seconds' +%FT%T",
    "scontrol": 'echo "$@" >>scontrol.log',
}
SET = {
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "3",
    "SLURM_CPUS_PER_TASK": "1",
    "SLURM_MEM_PER_CPU": "1000",
}


@pytest.fixture
def stand_ins(tmp_path: Path) -> dict[str, str]:
    """An environment in which the script finds them."""
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return (
        dict(os.environ)
        | SET
        | {"PATH": f"{tmp_path}/bin:{BIN}:{os.environ['PATH']}", "INTERFACE": "lo"}
    )


def kill_group(leader: int) -> None:
    """Kill what is left of a script and of what it started."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@pytest.mark.timeout(900)
def test_a_fit_that_is_told_to_stop_goes_back_into_the_queue_and_then_goes_on(
    tmp_path: Path, stand_ins: dict[str, str], request: pytest.FixtureRequest
) -> None:
    job = Job(tmp_path)
    words = ["bash", str(SCRIPT), *job.words]
    left = tmp_path / f"dpmeans-{SET['SLURM_JOB_ID']}.scheduler.json"
    left.write_text('{"address": "tcp://127.0.0.1:9"}')  # by a start on a node that was lost

    def start(**environment: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "job.log").open("a") as log:
            process = subprocess.Popen(
                words,
                cwd=tmp_path,
                env=stand_ins | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        request.addfinalizer(lambda: kill_group(process.pid))
        return process

    first = start()
    wait_until(lambda: len(job.steps()) > 1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=240) == 3, job.log()
    assert (tmp_path / "scontrol.log").read_text() == "requeue 7\n"
    assert 1 < len(job.steps()) < STEPS
    assert start(SLURM_RESTART_COUNT="1").wait(timeout=240) == 0, job.log()
    job.check()
    scheduler, workers = sorted((tmp_path / "srun.log").read_text().splitlines()[:2])
    assert scheduler.startswith("1 dask scheduler ")
    assert workers.startswith("2 dask worker ")
    assert "--nthreads 1 --memory-limit 1000MiB " in workers
    (lifetime, stagger) = map(int, re.findall(r"--lifetime\S* (\d+) seconds", workers))
    assert 400 < lifetime + stagger < 600 - 30


def test_what_is_wrong_with_the_input_does_not_go_back_into_the_queue(
    tmp_path: Path, stand_ins: dict[str, str], request: pytest.FixtureRequest
) -> None:
    words = ["bash", str(SCRIPT), "nothing.zarr", "run.zarr", "--penalty", "4"]
    one_worker = stand_ins | {"SLURM_NTASKS": "2"}
    # A worker that is stopped while it starts may wait for its scheduler for 120 seconds, and would
    # keep a pipe open for as long.
    log = tmp_path / "errors.log"
    with log.open("w") as file:
        script = subprocess.Popen(
            words,
            cwd=tmp_path,
            env=one_worker,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
    request.addfinalizer(lambda: kill_group(script.pid))
    assert script.wait(timeout=240) == 2, log.read_text()
    assert "nothing.zarr" in log.read_text()
    assert not (tmp_path / "scontrol.log").exists()


# Slurm itself


@dataclass
class Slurm:
    """Munge, slurmctld and slurmd as processes of this test."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands are called with, and the job."""
        path = f"{BIN}:{os.environ['PATH']}:/usr/sbin"
        return dict(os.environ) | {
            "SLURM_CONF": f"{self.folder}/slurm.conf",
            "PATH": path,
            "INTERFACE": "lo",
        }

    def start(self) -> None:
        """Write the configuration and start the three."""
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, ports=free_ports(2))
        )
        files = {
            "socket": "munge.sock",
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "munge.seed",
        }
        options = [f"--{name}={self.folder}/{file}" for name, file in files.items()]
        self._start("munged", "--foreground", "--force", f"--key-file={key}", *options)
        wait_until((self.folder / "munge.sock").exists, 20)
        self._start("slurmctld", "-D", "-c")
        self._start("slurmd", "-D", "-N", "localhost")
        wait_until(
            lambda: self.call("sinfo", "--noheader", "--format=%T", check=False).strip() == "idle",
            60,
        )

    def _start(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("w") as log:
            self.processes.append(
                subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
            )

    def call(self, *words: str, check: bool = True, cwd: Path | None = None) -> str:
        """What a command of Slurm's says."""
        done = subprocess.run(words, cwd=cwd, env=self.environment, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def said(self) -> str:
        """The last line of each daemon."""
        logs = sorted(self.folder.glob("*.out"))
        return "; ".join(
            f"{log.stem}: {(log.read_text().splitlines() or ['nothing'])[-1]}" for log in logs
        )

    def about(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.call("scontrol", "show", "job", job)))

    def end(self) -> None:
        """End all of it, be there a job that does not end."""
        self.call("scancel", "--full", "--user=root", check=False)
        try:
            wait_until(lambda: not self.call("squeue", "--noheader", check=False), 60)
        finally:
            for process in reversed(self.processes):
                process.terminate()
            for process in self.processes:
                process.wait(timeout=60)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A Slurm of one node, where it is installed and may be run."""
    missing = [
        name
        for name in ("munged", "slurmctld", "slurmd")
        if not shutil.which(name, path="/usr/sbin")
    ]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Slurm cannot be run here: {', '.join(missing) or 'not as this user'}")
    folder = tmp_path / "slurm"
    folder.mkdir()
    here = Slurm(folder)
    try:
        try:
            here.start()
        except AssertionError:
            pytest.skip(f"Slurm does not come up here: {here.said()}")
        yield here
    finally:
        here.end()


@pytest.mark.timeout(900)
def test_under_slurm_a_fit_that_is_told_to_stop_is_requeued_and_goes_on(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    sizes = [
        "--ntasks=3",
        "--cpus-per-task=1",
        "--mem-per-cpu=1000",
        "--time=20",
        "--output=job.log",
    ]
    number = slurm.call(
        "sbatch", "--parsable", *sizes, str(SCRIPT), *job.words, cwd=tmp_path
    ).strip()
    wait_until(lambda: len(job.steps()) > 1)
    assert slurm.about(number)["JobState"] == "RUNNING"
    slurm.call("scancel", "--batch", "--signal=TERM", number)  # as before the time is up
    wait_until(lambda: slurm.about(number)["Restarts"] == "1")
    assert len(job.steps()) < STEPS
    wait_until(lambda: slurm.about(number)["JobState"] == "PENDING")
    # Slurm revokes the credentials of a killed start to the second: one in the same second could not start.
    slurm.call("scontrol", "update", f"JobId={number}", "StartTime=now+5seconds")
    wait_until(lambda: slurm.about(number)["JobState"] == "COMPLETED")
    job.check()
