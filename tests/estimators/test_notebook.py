"""What a notebook shows of an estimator."""

import numpy as np
import pytest
from sklearn import config_context

from dask_dpmeans import DPMeans, GraphCutDPMeans, KernelDPMeans, LinkageDPMeans, OnlineDPMeans

ROWS = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], [5, 3, 2], axis=0)


def test_a_notebook_shows_the_clusters_of_a_fit_above_its_parameters():
    model = DPMeans(1.0)
    before = model._repr_html_()
    after = model.fit(ROWS)._repr_html_()
    assert "<strong>DPMeans" not in before
    assert "<strong>DPMeans: 3 clusters</strong>" in after
    assert [after.index(share) for share in ("50.0%", "30.0%", "20.0%")] == sorted(
        after.index(share) for share in ("50.0%", "30.0%", "20.0%")
    )
    assert "penalty" in after
    assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}
    with config_context(display="text"):
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}


def test_a_notebook_says_why_a_number_was_chosen_and_what_it_leaves_out():
    rows = 100.0 * np.arange(14)[:, np.newaxis] ** 2
    html = DPMeans(1.0).fit(rows)._repr_html_()
    assert html.count("<span>7.1%</span>") == 10
    assert "and 4 more, 28.6% of the weight" in html
    chosen = DPMeans(random_state=0).fit(np.random.default_rng(0).normal(size=(60, 2)))
    assert "1 cluster" in chosen._repr_html_()


@pytest.mark.parametrize(
    "model",
    [
        KernelDPMeans(0.5),
        OnlineDPMeans(4.0),
        LinkageDPMeans(penalty=-0.5, micro_penalty=1.0),
        GraphCutDPMeans(-0.5, random_state=0),
    ],
)
def test_every_estimator_has_a_summary(model):
    rows = ROWS
    if isinstance(model, GraphCutDPMeans):
        rows = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    assert f"<strong>{type(model).__name__}: " in model.fit(rows)._repr_html_()
