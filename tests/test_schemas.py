"""What `show --json` and `export` give is as their schemas say, for a run of each method."""

import json
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

from dask_dpmeans import (
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    fit,
)
from dask_dpmeans.api.export import as_json
from dask_dpmeans.cli import main
from dask_dpmeans.engine.history import Record
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.storage.manifest import FORMAT

ROWS = np.random.default_rng(0).standard_normal((60, 3)) + np.arange(60)[:, None] % 3 * 9
RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "auto": (DPMeans(), {}),
    "radius": (DPMeans(9.0), {}),
    "chosen": (DPMeans(), {}),
    "chosen for features": (KernelDPMeans("auto", approximation="fourier", n_components=9), {}),
    "price": (
        DPMeans(9.0, search=True),
        {"columns": [2, 0], "scale": "std", "sample_weight": np.ones(60)},
    ),
    "divergences": (DPMeans(9.0, divergence={0: "squared"}, missing="observed"), {}),
    "mixed": (DPMeans(9.0, divergence="mixed", missing="unscaled"), {}),
    "outliers": (DPMeans(9.0, search=True, outlier_penalty=5.0, min_cluster_weight=2.0), {}),
    "effort": (DPMeans(9.0, search=True, effort="quick"), {}),
    "gap": (DPMeans(9.0, search=True, effort="best", gap_tol=0.1), {}),
    "share of outliers": (DPMeans(9.0, search=True, outlier_share=0.05), {}),
    "falling price": (DPMeans(9.0, discount=2.0, search=True), {}),
    "from centers": (DPMeans(0.1, metric="cosine", init=ROWS[:2], max_clusters=50), {}),
    "hdp": (HDPMeans(9.0, 20.0), {"groups": np.arange(60) % 2}),
    "hdp, chosen": (HDPMeans(random_state=0), {"groups": np.arange(60) % 2}),
    "hdp search": (HDPMeans(9.0, 20.0, search=True), {"groups": np.arange(60) % 2}),
    "kernel": (KernelDPMeans(0.5), {}),
    "kernel search": (KernelDPMeans(0.5, search=True), {}),
    "features": (KernelDPMeans(0.5, approximation="nystroem", n_components=9), {}),
    "spectral": (SpectralDPMeans(500.0), {}),
    "neighbors": (SpectralDPMeans(0.9, affinity="nearest_neighbors"), {}),
    "graph": (GraphCutDPMeans(-0.5), {}),
    "graph without a penalty": (GraphCutDPMeans(), {}),
    "ratio cut": (GraphCutDPMeans(-0.5, cut="ratio", init="mean"), {}),
    "shapes": (LinkageDPMeans(-0.5, 9.0), {}),
    "shapes, chosen": (LinkageDPMeans(), {}),
    "sampler": (
        GibbsMixture(1.0, variance_prior=(2.0, 1.0), concentration_prior=(1.0, 1.0), max_iter=3),
        {},
    ),
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        files("dask_dpmeans").joinpath(f"schemas/{name}.json").read_text("utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@pytest.mark.filterwarnings("ignore:.* stay the best while:UserWarning")  # of chosen penalties
@pytest.mark.parametrize("name", RUNS)
def test_show_gives_what_its_schema_says(name: str, tmp_path: Path) -> None:
    method, options = RUNS[name]
    rows = (
        (np.abs(ROWS @ ROWS.T) > 9).astype(float) if isinstance(method, GraphCutDPMeans) else ROWS
    )
    fit(rows, tmp_path / "run", method, **options)
    result = CliRunner().invoke(main, ["show", str(tmp_path / "run"), "--json"])
    jsonschema.validate(json.loads(result.output), schema("show"))


def test_the_schema_tells_every_figure_of_a_step_and_the_format() -> None:
    found = schema("show")
    of_run = found["properties"]
    assert list(found["$defs"]["step"]["properties"]) == [field.name for field in fields(Record)]
    assert of_run["history"]["items"]["$ref"] == of_run["result"]["$ref"] == "#/$defs/step"
    assert list(of_run["result"]["properties"]) == ["n_iter"]
    assert of_run["format"]["const"] == FORMAT


@pytest.mark.parametrize(
    "model", [DPMeans(9.0), DPMeans(0.1, metric="cosine", search=True), OnlineDPMeans(9.0)]
)
def test_an_export_is_what_its_schema_says(model: Any) -> None:
    jsonschema.validate(json.loads(as_json(model.fit(ROWS))), schema("model"))


@pytest.mark.parametrize("name", ["show", "model"])
def test_a_schema_describes_each_thing_and_admits_no_other(name: str) -> None:
    found = schema(name)
    assert found["additionalProperties"] is False
    known = ("kind", "format", "version", "method")
    assert all(
        "description" in each
        for key, each in found["properties"].items()
        if key not in (*known, "sources", "clusters")
    )
