"""The recipe for TLS: certificates by the script, and the commands of Compose with `tls.env` and nothing else."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
import test_commands
import zarr
from targets import DEPLOY, Machine, commands, documents, machine, pod_specs, write_rows

ROLES = {"scheduler": "scheduler", "worker": "worker", "job": "client"}
"""Whose folder each service has."""


def made(folder: Path, *days: str) -> Path:
    """The folder that the script wrote."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    subprocess.run(
        [DEPLOY / "tls" / "certificates.sh", folder, *days], check=True, capture_output=True
    )
    return folder


def environment(folder: Path) -> dict[str, str]:
    """What `tls.env` sets, with the certificates in a folder."""
    lines = (DEPLOY / "tls" / "tls.env").read_text().splitlines()
    return dict(
        line.replace("=/tls/", f"={folder}/").split("=", 1) for line in lines if line[0] != "#"
    )


def test_each_service_mounts_the_certificates_of_its_role() -> None:
    (overlay,) = documents("tls/compose.yaml")
    folders = {name: service["volumes"][0] for name, service in overlay["services"].items()}
    assert {name: folder.partition("}/")[2] for name, folder in folders.items()} == {
        name: f"{role}:/tls:ro" for name, role in ROLES.items()
    }
    assert all(service["env_file"] == "tls/tls.env" for service in overlay["services"].values())
    for manifest in ("daskjob.yaml", "daskcluster.yaml"):
        pods = pod_specs(manifest)
        secrets = {
            name: volume["secret"]
            for name, pod in pods.items()
            for volume in pod["volumes"]
            if "secret" in volume
        }
        assert {name: secret["secretName"] for name, secret in secrets.items()} == {
            name: f"dpmeans-tls-{role}" for name, role in ROLES.items()
        }


def test_with_the_certificates_alone_the_same_commands_speak_tls_and_let_nobody_else_in(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "tls")
    write_rows(tmp_path / "rows.zarr")
    said = commands("compose.yaml")
    with machine(tmp_path, test_commands.ENVIRONMENT) as here:
        shutil.move(tmp_path / "rows.zarr", tmp_path / "data" / "input.zarr")
        for name in ("scheduler", "worker"):
            here.start(said[name], **environment(folder / name))
            here.figures("/health")
        job = here.start(said["job"], **environment(folder / "client"))
        job.communicate(timeout=120)
        assert job.returncode == 0, here.said("fit-0")
        assert f"Scheduler at: tls://127.0.0.1:{here.ports['8786']}" in " ".join(
            here.said("scheduler-0").split()
        )
        others = made(tmp_path / "others")
        assert refused(here, said["job"], {}) == 3
        assert refused(here, said["job"], environment(others / "client")) == 3
    assert zarr.open_group(tmp_path / "data" / "run.zarr", mode="r").attrs


def refused(here: Machine, words: list[str], settings: dict[str, str]) -> int:
    """The exit code of a job that does not wait long."""
    at = words.index("--worker-timeout") + 1
    job = here.start([*words[:at], "3", *words[at + 1 :]], **settings)
    job.communicate(timeout=60)
    return job.returncode


def test_certificates_are_renewed_by_the_same_authority_and_keys_are_for_their_owner_alone(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "tls", "30")
    before = {path: path.read_text() for path in folder.rglob("*.pem")}
    made(folder, "30")
    changed = {
        path.relative_to(folder).as_posix()
        for path, text in before.items()
        if path.read_text() != text
    }
    assert changed == {f"{role}/{name}.pem" for role in ROLES.values() for name in ("cert", "key")}
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    for role in ROLES.values():
        context = ssl.create_default_context(cafile=folder / role / "ca.pem")
        context.load_cert_chain(folder / role / "cert.pem", folder / role / "key.pem")
        verify = [
            "openssl",
            "verify",
            "-CAfile",
            folder / "authority" / "ca.pem",
            folder / role / "cert.pem",
        ]
        subprocess.run(verify, check=True, capture_output=True)
    server = [
        "openssl",
        "verify",
        "-purpose",
        "sslserver",
        "-CAfile",
        folder / "authority" / "ca.pem",
    ]
    assert (
        subprocess.run([*server, folder / "worker" / "cert.pem"], capture_output=True).returncode
        == 0
    )
    assert (
        subprocess.run([*server, folder / "client" / "cert.pem"], capture_output=True).returncode
        != 0
    )
