"""Published results on real data come out; skipped where the data is not there."""

import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dask_dpmeans import DPMeans

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.skipif(not (DATA / "mnist10.npz").exists(), reason="needs mnist10.npz")
def test_mnist10_at_penalty_8_reaches_the_published_objective() -> None:
    """Odashima et al. 2016, table 2: batch DP-means ends at 1.31e5 +- 0.01e5."""
    rows = np.load(DATA / "mnist10.npz")["X"]
    model = DPMeans(8.0, tol=0, max_iter=1000).fit(rows)
    assert model.objective_ <= 1.325e5
    objectives = [record.objective for record in model.history_]
    assert all(after < before for before, after in pairwise(objectives))
    squared = ((rows.astype(np.float64) - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    assert squared.max() <= 8.0
    assert squared.sum() == pytest.approx(model.inertia_, rel=1e-12)


@pytest.mark.skipif(
    not (DATA / "car.npz").exists(), reason="needs the UCI sets, car.npz and others"
)
def test_uci_sets_come_within_three_hundredths_of_the_published_agreement() -> None:
    """Kulis & Jordan 2012, table 1: DP-means, means over 10 splits."""
    uci = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "uci_table.py"))
    found = {}
    for name, data in uci["data_sets"](DATA):
        splits = [uci["split"](data, seed)[1] for seed in range(10)]
        found[name] = float(np.mean([uci["dp_means"](each, data.k) for each in splits]))
    assert found == pytest.approx(
        {name: scores[0] for name, scores in uci["PUBLISHED"].items()}, abs=0.03
    )
