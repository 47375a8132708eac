"""The manifests are what their schemas and linters allow, and say the same to Dask as to those that start it."""

import re
import shutil
import subprocess
import zipfile
from copy import deepcopy
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from dask.utils import parse_bytes
from targets import (
    BIN,
    DEPLOY,
    MANIFESTS,
    commands,
    containers,
    documents,
    download,
    pod_specs,
    services,
)

from dask_dpmeans import __version__

OPERATOR = "dask-kubernetes==2026.3.0"
KUBERNETES = "1.34"
YAML_RULES = ("-d", "{extends: default, rules: {line-length: {max: 120}}}", "-")
COMPOSE = ("--builtin-schema", "vendor.compose-spec", "--default-filetype", "yaml", "-")
CUSTOM = "kubernetes.dask.org/v1"


def checker(name: str) -> str:
    """The path of a checker."""
    found = shutil.which(name, path=BIN) or shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} for this machine")
    return found


def check(name: str, *words: str, text: str) -> None:
    """Raise `CalledProcessError` where a checker finds something in a text."""
    subprocess.run([checker(name), *words], input=text, text=True, capture_output=True, check=True)


def planted(text: str, right: str, wrong: str) -> str:
    """A text with a mistake in it."""
    assert right in text
    return text.replace(right, wrong, 1)


CHECKS = [
    ("hadolint", ("--no-color", "-"), "Dockerfile", "--no-cache-dir ", ""),
    ("shellcheck", ("-",), "slurm/fit.sbatch", 'rm -f "$scheduler_file"', "rm -f $scheduler_file"),
    ("shellcheck", ("-",), "tls/certificates.sh", 'cd "$folder"', "cd $folder"),
    ("yamllint", YAML_RULES, "compose.yaml", "  scheduler:\n", "  scheduler:  \n"),
    ("yamllint", YAML_RULES, "tls/compose.yaml", "services:", "services :"),
    (
        "yamllint",
        YAML_RULES,
        "kubernetes/daskjob.yaml",
        "kind: DaskJob",
        "kind: DaskJob\nkind: DaskJob",
    ),
    ("yamllint", YAML_RULES, "kubernetes/daskcluster.yaml", "  minimum: 2", "   minimum: 2"),
    ("yamllint", YAML_RULES, "kubernetes/shared.yaml", "metadata:\n", "metadata: \n"),
    ("check-jsonschema", COMPOSE, "compose.yaml", "mem_limit", "memlimit"),
    ("check-jsonschema", COMPOSE, "tls/compose.yaml", "env_file", "envfile"),
]


@pytest.mark.parametrize(
    ("name", "words", "file", "right", "wrong"), CHECKS, ids=lambda each: str(each)[:20]
)
def test_a_checker_finds_nothing_but_what_is_planted(
    name: str, words: tuple[str, ...], file: str, right: str, wrong: str
) -> None:
    text = (DEPLOY / file).read_text()
    check(name, *words, text=text)
    with pytest.raises(subprocess.CalledProcessError, match=name):
        check(name, *words, text=planted(text, right, wrong))


def test_every_file_of_a_kind_is_checked() -> None:
    checked = {DEPLOY / file for _, _, file, _, _ in CHECKS}
    kinds = ("*.yaml", "*.sh", "*.sbatch", "Dockerfile")
    assert {path for kind in kinds for path in DEPLOY.rglob(kind)} == checked


def core_objects() -> list[dict[str, Any]]:
    """What Kubernetes itself is given, and what the operator makes of its own kinds."""
    found = []
    for manifest in ("shared.yaml", *MANIFESTS):
        found += [
            each for each in documents(f"kubernetes/{manifest}") if each["apiVersion"] != CUSTOM
        ]
    metadata = {"name": "any"}
    for manifest in MANIFESTS:
        found += [
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            for spec in pod_specs(manifest).values()
        ]
        cluster = documents(f"kubernetes/{manifest}")[0]["spec"]
        service = cluster.get("cluster", {"spec": cluster})["spec"]["scheduler"]["service"]
        found.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
    return found


def test_kubernetes_takes_the_objects_and_no_misspelled_field() -> None:
    objects = core_objects()
    assert [each["kind"] for each in objects].count("Pod") == 6
    for each in objects:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        wrong = deepcopy(each)
        wrong["spec"]["planted"] = 1
        with pytest.raises(kubernetes_validate.ValidationError, match="planted"):
            kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The operator's schemas by kind, which take no field that they do not name."""
    wheel = download(OPERATOR, tmp_path_factory.mktemp("operator"))
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/crds/" in name]
        definitions = [yaml.load(archive.read(name), yaml.CSafeLoader)["spec"] for name in names]
    return {
        each["names"]["kind"]: strict(each["versions"][0]["schema"]["openAPIV3Schema"])
        for each in definitions
    }


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of a kind, with no other fields, but those that every kind has."""
    closed = _closed(schema)
    closed["properties"] |= {
        "apiVersion": {"const": CUSTOM},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return closed


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


def custom_objects() -> list[dict[str, Any]]:
    """What the operator is given."""
    return [
        each
        for name in MANIFESTS
        for each in documents(f"kubernetes/{name}")
        if each["apiVersion"] == CUSTOM
    ]


def test_the_operator_takes_its_objects_and_no_misspelled_field(schemas: dict[str, Any]) -> None:
    objects = custom_objects()
    assert [each["kind"] for each in objects] == ["DaskJob", "DaskCluster", "DaskAutoscaler"]
    for each in objects:
        jsonschema.validate(each, schemas[each["kind"]])
        wrong = deepcopy(each)
        innermost(wrong)["planted"] = 1
        with pytest.raises(jsonschema.ValidationError, match="planted"):
            jsonschema.validate(wrong, schemas[each["kind"]])


def innermost(document: dict[str, Any]) -> dict[str, Any]:
    """A mapping deep within an object of the operator's."""
    spec = document["spec"]
    cluster = spec.get("cluster")
    workers = cluster["spec"] if isinstance(cluster, dict) else spec
    return (
        workers["worker"]["spec"]["containers"][0]["securityContext"]
        if "worker" in workers
        else spec
    )


# What the manifests say twice


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_worker_keeps_to_the_limits_of_its_container(manifest: str) -> None:
    worker = containers(manifest)["worker"]
    assert worker["resources"]["requests"] == worker["resources"]["limits"]
    assert worker["resources"]["limits"]["cpu"] == option(worker["args"], "--nthreads")
    assert parse_bytes(worker["resources"]["limits"]["memory"] + "B") == parse_bytes(
        option(worker["args"], "--memory-limit")
    )


def test_a_worker_of_compose_keeps_to_the_limits_of_its_container() -> None:
    worker, words = services()["worker"], commands("compose.yaml")["worker"]
    assert str(worker["cpus"]) == option(words, "--nthreads")
    # Docker's g are powers of two.
    assert parse_bytes(worker["mem_limit"] + "iB") == parse_bytes(option(words, "--memory-limit"))
    assert worker["memswap_limit"] == worker["mem_limit"]


def test_scheduler_workers_and_job_are_of_one_image_of_this_version() -> None:
    images = {service["image"] for service in services().values()}
    images |= {
        container["image"] for manifest in MANIFESTS for container in containers(manifest).values()
    }
    assert images == {f"dask-dpmeans:{__version__}"}


def test_both_manifests_give_the_same_commands_to_other_hosts() -> None:
    one, other = (commands(manifest) for manifest in MANIFESTS)
    renamed = {
        name: [word.replace("dpmeans-pool-", "dpmeans-") for word in words]
        for name, words in other.items()
    }
    assert one == renamed


@pytest.mark.parametrize("target", ["compose.yaml", *MANIFESTS])
def test_every_job_can_be_started_again(target: str) -> None:
    job = commands(target)["job"]
    assert job[:2] == ["dask-dpmeans", "fit"]
    assert "--resume" in job
    assert "--force" not in job


def test_jobs_are_tried_again_but_not_for_ever_and_not_where_the_input_is_wrong() -> None:
    assert services()["job"]["restart"] == "on-failure:5"
    once = pod_specs("daskjob.yaml")["job"]
    assert once["restartPolicy"] == "OnFailure"
    assert once["activeDeadlineSeconds"] > 0
    job = documents("kubernetes/daskcluster.yaml")[-1]["spec"]
    rules = {rule["action"]: rule for rule in job["podFailurePolicy"]["rules"]}
    assert rules["FailJob"]["onExitCodes"] == {
        "containerName": "job",
        "operator": "In",
        "values": [2],
    }
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert 0 < job["backoffLimit"] <= 20
    assert job["podReplacementPolicy"] == "Failed"


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_pods_are_nobody_and_write_only_where_something_is_mounted(manifest: str) -> None:
    for name, pod in pod_specs(manifest).items():
        container = pod["containers"][0]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert not pod["automountServiceAccountToken"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
        assert mounts["scratch"] == "/scratch"


def test_services_are_nobody_and_reachable_from_this_machine_alone() -> None:
    for service in services().values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "/scratch" in service["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_the_policy_covers_every_pod_and_the_service_finds_the_scheduler(manifest: str) -> None:
    policy = documents("kubernetes/shared.yaml")[1]["spec"]
    wanted = policy["podSelector"]["matchLabels"]
    for each in documents(f"kubernetes/{manifest}"):
        if each["kind"] in (
            "DaskJob",
            "DaskCluster",
            "Job",
        ):  # the operator passes labels on to pods
            labels = each["spec"].get("template", each)["metadata"]["labels"]
            assert labels.items() >= wanted.items()
    cluster = documents(f"kubernetes/{manifest}")[0]
    spec = cluster["spec"].get("cluster", cluster)["spec"]
    name = cluster["metadata"]["name"]
    assert spec["scheduler"]["service"]["selector"] == {
        "dask.org/cluster-name": name,
        "dask.org/component": "scheduler",
    }
    # The names by which the operator looks for them.
    ports = {port["name"]: port["port"] for port in spec["scheduler"]["service"]["ports"]}
    assert ports == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert f"{name}-scheduler:8786" in commands(manifest)["job"]
    assert f"{name}-scheduler:8786" in commands(manifest)["worker"]


def test_no_manifest_names_a_secret_that_it_holds() -> None:
    for manifest in ("shared.yaml", *MANIFESTS):
        assert "Secret" not in [each["kind"] for each in documents(f"kubernetes/{manifest}")]


def test_the_readme_tells_how_to_start_watch_and_resume_each_target() -> None:
    text = (DEPLOY / "README.md").read_text()
    for title in (
        "Compose",
        "Kubernetes, a cluster for one fit",
        "Kubernetes, a cluster that grows",
        "Slurm",
    ):
        section = re.split(r"^## ", text.split(f"\n## {title}")[1], flags=re.M)[0]
        (block,) = re.findall(r"```bash\n(# start.*?)```", section, flags=re.S)
        assert re.findall(r"^# (\w+)", block, flags=re.M) == ["start", "watch", "resume"], title


def test_compose_resumes_with_as_many_workers_as_it_started() -> (
    None
):  # without --scale it would end some of them
    scales = re.findall(r"compose\.yaml up .*--detach(.*)", (DEPLOY / "README.md").read_text())
    assert scales[:2] == [" --scale worker=4"] * 2


def test_files_that_the_readme_names_are_there() -> None:
    text = (DEPLOY / "README.md").read_text()
    named = set(re.findall(r"deploy/[\w./]+\w", text))
    assert len(named) > 5
    for name in named:
        assert (DEPLOY.parent / name).exists(), name
