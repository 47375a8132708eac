"""The choice between cuts of links and balls: what is found without parameters, and by which rule."""

import json
import math
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs, make_circles, make_classification, make_moons
from sklearn.metrics import adjusted_rand_score
from strategies import seeds

from dask_dpmeans import LinkageDPMeans, sources
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.center_path import center_path
from dask_dpmeans.methods.dpmeans.chooser import choose_from
from dask_dpmeans.methods.dpmeans.coreset import different_rows
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters
from dask_dpmeans.methods.linkage import chooser
from dask_dpmeans.methods.linkage.choice import ALONE, LinkageChoice
from dask_dpmeans.methods.linkage.chooser import (
    AutoLinkage,
    choose,
    intrinsic_dimension,
    micro_clusters,
    price_of,
)
from dask_dpmeans.methods.linkage.levels import (
    COARSER,
    LEAST_SCORE,
    NEAREST,
    Levels,
    cut_intervals,
    cut_score,
)
from dask_dpmeans.methods.linkage.search import Method
from dask_dpmeans.methods.linkage.tree import GroupTree, without_light_components


def chosen(rows: np.ndarray, **given: Any) -> LinkageChoice:
    return choose(sources.as_source(rows), 0, **given)[0]


@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("draw", [make_moons, make_circles])
def test_two_shapes_are_a_cut_in_two(draw: Any, n: int) -> None:
    noise = {"noise": 0.05, "random_state": 0}
    rows = draw(n, **noise, **({"factor": 0.5} if draw is make_circles else {}))[0]
    found = chosen(rows)
    assert (found.n_clusters, found.chosen.balls) == (2, False)
    assert -1 < found.penalty < 0
    assert "2 clusters stay the best" in found.reason
    assert found.headline == "2 clusters: few rows between them"


@pytest.mark.parametrize("d", [2, 5])
def test_balls_that_touch_are_micro_clusters_of_their_own(d: int) -> None:
    centers = 3.5 * np.eye(d)[:2].repeat(2, axis=0) * np.array([1, -1, 1, -1])[:, np.newaxis]
    rows = make_blobs(2000, centers=centers, cluster_std=1.0, random_state=0)[0]
    found = chosen(rows)
    assert (found.n_clusters, found.chosen.balls, found.penalty) == (4, True, ALONE)
    assert "4 clusters, which are balls" in found.reason


@pytest.mark.parametrize("apart", [True, False])
def test_balls_that_lie_apart_say_so(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """The gap is that of the balls: a cut that is chosen before them has none."""
    rows = make_blobs(400, centers=3, random_state=0)[0]
    source = InMemoryRows(rows, None)
    found = choose_from(source, source, ChoiceParameters(0, spherical=False))
    balls = replace(found, choice=replace(found.choice, evidence=1.0, apart=apart))
    monkeypatch.setattr(chooser, "choose_from", lambda *_: balls)
    for cut in (False, True):
        monkeypatch.setattr(Levels, "clearer_than", lambda *_, cut=cut: cut)
        monkeypatch.setattr(chooser.CutEvidenceJob, "__call__", lambda *_: 9.0)
        assert chosen(rows).apart is (apart and not cut)


@pytest.mark.parametrize(
    ("evidence", "stability", "told"),
    [
        (
            0.0,
            0.1,
            "fits of halves of the rows do not agree on it: their adjusted Rand index is 0.10.",
        ),
        (
            2.98,
            0.9,
            "divide about as well: times "
            "the agreement of halves, the difference is 2.9 standard deviations, and 3 are needed.",
        ),
    ],
)
def test_one_cluster_says_whether_halves_or_random_rows_decided(
    monkeypatch: pytest.MonkeyPatch, evidence: float, stability: float, told: str
) -> None:
    rows = make_blobs(400, centers=3, random_state=0)[0]
    source = InMemoryRows(rows, None)
    found = choose_from(source, source, ChoiceParameters(0, spherical=False))
    best = replace(found.choice.chosen, stability=stability)
    one = replace(best, n_clusters=1, stability=1.0)
    choice = replace(found.choice, alternatives=(one, best), evidence=evidence)
    monkeypatch.setattr(chooser, "choose_from", lambda *_: replace(found, choice=choice))
    monkeypatch.setattr(Levels, "clearer_than", lambda *_: False)
    assert chosen(rows).reason.endswith(told)


@settings(max_examples=4, deadline=None)
@example(factor=3, d=2)
@given(factor=st.integers(2, 10_000), d=st.sampled_from([2, 3]))
def test_a_whole_weight_of_all_rows_only_scales_the_price(factor: int, d: int) -> None:
    rows = np.pad(make_moons(200, noise=0.05, random_state=0)[0], ((0, 0), (0, d - 2)))
    expected, weights = chosen(rows), np.full(len(rows), factor)
    found = choose(sources.as_source(rows, weights), 0)[0]
    assert (found.n_clusters, found.tried) == (expected.n_clusters, expected.tried) == (2, 30)
    assert found.penalty == pytest.approx(expected.penalty)
    price = expected.penalties["micro_penalty"]
    assert found.penalties["micro_penalty"] == pytest.approx(factor * price)
    if factor == 3:
        assert chosen(np.repeat(rows, factor, axis=0)) == found


@settings(max_examples=50, deadline=None)
@given(different=st.integers(1, 60), times=st.integers(1, 5), n=st.integers(300, 10**9), seed=seeds)
def test_different_rows_are_counted_by_a_sample(
    different: int, times: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    some = rng.permutation(1000)[:different].astype(float)
    values = np.column_stack([some, rng.choice([0.0, -0.0], different)])
    sample = InMemoryRows(rng.permutation(values.repeat(times, axis=0)), None)
    found = different_rows(sample, n)
    if times == 1:  # about as many others may not be in the sample as there are pairs
        assert found == min(n, different + math.comb(different, 2))
    else:
        assert found == different
    assert different_rows(sample, 5) <= 5


def test_few_values_of_many_rows_have_few_micro_clusters() -> None:
    rows = make_moons(20_000, noise=0.05, random_state=0)[0]
    found = chosen(np.round(rows, 1))
    assert (found.n_clusters, found.chosen.balls) == (2, False)
    assert 25 <= found.tried <= len(np.unique(np.round(rows, 1), axis=0)) / 3


@pytest.mark.parametrize(
    ("n", "d", "k", "spread"),
    [(1000, 200, 20, 5.0), (400, 50, 20, 2.0), (300, 10, 20, 1.5), (200, 200, 10, 5.0)],
)
def test_balls_of_few_micro_clusters_each_are_not_joined(
    n: int, d: int, k: int, spread: float
) -> None:
    rows = make_blobs(n, d, centers=k, cluster_std=spread, random_state=1)[0]
    found = chosen(rows)
    assert (found.n_clusters, found.chosen.balls) == (k, True)
    assert "are not clearer" in found.reason


def test_shapes_of_few_micro_clusters_each_are_not_fewer_balls() -> None:
    rng = np.random.default_rng([0, 4, 50])
    arcs = []
    for place in np.ndindex(4, 4):
        angles = rng.uniform(0, 1.2 * np.pi, 50) + rng.uniform(0, 6.28)
        arc = np.column_stack([np.cos(angles), np.sin(angles)])
        arcs.append(arc + 0.05 * rng.standard_normal((50, 2)) + 3.0 * np.array(place))
    found = chosen(np.concatenate(arcs))
    assert found.n_clusters in (16, 17)
    assert not found.chosen.balls
    fewer = [each.n_clusters for each in found.alternatives if each.balls]
    assert fewer
    assert fewer[0] < 16


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [2, 8])
def test_rows_without_clusters_are_one(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows in (rng.normal(size=(400, d)), rng.uniform(size=(400, d))):
        found = chosen(rows)
        assert found.n_clusters == 1
        assert found.reason.startswith(("1 cluster: ", "1 cluster. The best division is"))


def test_a_number_that_is_asked_for_is_a_cut_or_balls_by_the_clearer() -> None:
    moons = make_moons(500, noise=0.05, random_state=0)[0]
    blobs = make_blobs(1000, centers=6, cluster_std=0.5, random_state=3)[0]
    assert not chosen(moons, n_clusters=2).chosen.balls
    assert chosen(blobs, n_clusters=6).n_clusters == 6
    assert chosen(blobs, n_clusters=6).asked


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.0, 1.4), min_size=1, max_size=12))
def test_the_number_of_an_interval_has_the_least_cut_and_price(falls: list[float]) -> None:
    cuts = np.concatenate([[0.0], np.cumsum(falls)])
    numbers = np.arange(1, len(cuts) + 1)
    found = cut_intervals(cuts)
    assert all(-1 <= each.low < each.high <= -NEAREST for each in found)
    for one, other in pairwise(found):
        assert one.high == other.low
    for each in found:
        objective = cuts + each.middle * numbers
        assert objective[each.n_clusters - 1] <= objective.min() + 1e-12


def levels_of(falls: list[float], coarser: list[float]) -> Levels:
    """Levels of a summary whose cuts rise by falls, as others rise with coarser micro-clusters."""
    cuts, others = (np.concatenate([[0.0], np.cumsum(each)]) for each in (falls, coarser))
    figures = {"n_rows": 100, "dimension": 2.0, "balls": None}
    return Levels(price=1.0, cuts=cuts, coarser=others, **figures)


def scores_of(cuts: np.ndarray) -> dict[int, float]:
    return {each.n_clusters: cut_score(each, 2.0) for each in cut_intervals(cuts)}


RISES = st.lists(st.floats(0.0, 1.4), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(RISES, RISES, RISES)
def test_a_fit_takes_the_number_with_the_best_mean_score_at_a_penalty_of_its_own(
    before: list[float], coarser: list[float], after: list[float]
) -> None:
    summary = levels_of(before, coarser)
    fit = summary.of_fit(levels_of(after, coarser).cuts)
    own, first, second = map(scores_of, (fit.cuts, summary.cuts, summary.coarser))
    means = {
        k: (score + first.get(k, 0.0) + second.get(k, 0.0)) / 3 for k, score in own.items() if k > 1
    }
    assert (fit.best.n_clusters > 1) == bool(means)
    if means:
        assert means[fit.best.n_clusters] == pytest.approx(max(means.values()))
    tree = GroupTree(np.empty((0, 4)), fit.cuts)
    if means and fit.best.low < fit.best.high * (1 + 1e-9):
        assert fit.score_of(fit.best) == pytest.approx(means[fit.best.n_clusters])
        assert tree.best_level(fit.best.middle) == fit.best.n_clusters


@given(st.integers(2, 50), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(2.0, 9.0))
def test_powers_of_prices_score_alike_in_each_dimension(
    number: int, one: float, other: float, dimension: float
) -> None:
    low, high = sorted([-one, -other])
    flat = Interval(number, low, high)
    powers = Interval(number, -((-low) ** (2 / dimension)), -((-high) ** (2 / dimension)))
    score = math.log((NEAREST - low) / (NEAREST - high)) * number**0.25
    assert cut_score(flat, 2.0) == pytest.approx(score, abs=1e-9)
    assert cut_score(powers, dimension) == pytest.approx(score, abs=1e-9)


def test_groups_that_are_best_at_the_least_price_score_at_least_as_in_two_dimensions() -> None:
    *others, last = cut_intervals(np.array([0.0, 0.0, 0.05, 0.3, 0.8]))
    assert (last.n_clusters, last.high) == (2, -NEAREST)
    assert cut_score(last, 6.0) == cut_score(last, 2.0) > LEAST_SCORE
    assert cut_score(last, 2.0) == pytest.approx(
        math.log((0.05 + NEAREST) / (2 * NEAREST)) * 2**0.25
    )
    for each in others:
        low, high = ((-price) ** 3 + NEAREST for price in (each.low, each.high))
        assert cut_score(each, 6.0) == pytest.approx(math.log(low / high) * each.n_clusters**0.25)
    wide = Interval(2, -0.9, -NEAREST)  # higher in more dimensions than in two
    assert cut_score(wide, 6.0) == pytest.approx(
        math.log((0.9**3 + NEAREST) / (NEAREST**3 + NEAREST)) * 2**0.25
    )


def test_two_moons_in_more_columns_are_two_clusters() -> None:
    """They were 10, which scored 1.5 in the dimension of the rows, 4.6; the two scored .01."""
    moons, labels = make_moons(1000, noise=0.06, random_state=0)
    rows = np.column_stack([moons, 0.06 * np.random.default_rng(0).standard_normal((1000, 3))])
    model = LinkageDPMeans(random_state=0).fit(rows)
    assert (model.n_clusters_, model.choice_.chosen.balls) == (2, False)
    assert adjusted_rand_score(labels, model.labels_) > 0.99


@pytest.mark.parametrize(("d", "found"), [(1, 2), (2, 2), (3.5, 3.5), (6, 6), (20, 6)])
def test_the_dimension_follows_from_the_errors_of_many_clusters(d: float, found: float) -> None:
    inertias = np.arange(1, 65) ** (-2 / d)
    inertias[:20] *= 100  # few clusters do not count
    assert intrinsic_dimension(inertias) == pytest.approx(found)


@pytest.mark.parametrize("inertias", [[0.0], [5.0], [5.0, 0.0], [4.0, 1.0]])
def test_few_clusters_have_the_least_dimension(inertias: list[float]) -> None:
    assert intrinsic_dimension(np.array(inertias)) == 2


@pytest.mark.parametrize("d", [2, 4])
def test_the_dimension_is_that_of_the_rows_not_of_their_columns(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.uniform(size=(2000, d)) @ np.linalg.qr(rng.normal(size=(9, d)))[0].T
    path = center_path(np.ascontiguousarray(rows), np.ones(2000), 90)
    assert d - 1 < intrinsic_dimension(path.inertias) <= d


@pytest.mark.parametrize("n", [1000, 4000])
def test_clusters_of_many_directions_are_not_joined(n: int) -> None:
    apart = {"n_features": 10, "n_informative": 8, "n_redundant": 0, "class_sep": 2.5}
    rows = make_classification(n, **apart, n_classes=5, n_clusters_per_class=1, random_state=0)[0]
    found = chosen(rows)
    assert (found.n_clusters, found.chosen.balls) == (5, False)
    assert "Allowing for the number of clusters and the dimension" in found.reason


def test_a_choice_survives_json() -> None:
    found = chosen(make_moons(300, noise=0.05, random_state=0)[0])
    assert LinkageChoice.from_json(json.loads(json.dumps(found.as_json()))) == found
    assert set(asdict(found)) == set(found.as_json())


def test_components_of_less_than_the_mean_weight_lose_their_links() -> None:
    graph = np.zeros((6, 6))
    for one, other in ((0, 1), (1, 2), (3, 4)):
        graph[one, other] = graph[other, one] = 1.0
    weights = np.array([10.0, 10.0, 10.0, 1.0, 2.0, 12.0])
    kept = without_light_components(csr_array(graph), weights).toarray()
    wanted = graph.copy()
    wanted[3:5] = 0.0
    np.testing.assert_array_equal(kept, wanted)
    heavy = np.array([10.0, 10.0, 10.0, 6.0, 6.0, 1.0])
    np.testing.assert_array_equal(
        without_light_components(csr_array(graph), heavy).toarray(), graph
    )


class CountedPasses(InMemoryRows):
    """Rows that note the name of each pass."""

    passes: list[str]

    def fold(self, reduction: Any, blocks: Any = None, name: str = "fold") -> Any:
        """Note and take a pass."""
        self.passes.append(name)
        return super().fold(reduction, blocks, name)


CIRCLES = make_circles(20_000, noise=0.04, factor=0.5, random_state=0)[0]


def test_the_number_of_micro_clusters_follows_from_the_rows() -> None:
    numbers = [micro_clusters(n) for n in (1, 10, 60, 400, 10_000, 10**9)]
    assert numbers == [1, 5, 30, 40, 200, 300]


def test_the_price_of_a_micro_cluster_is_one_at_which_the_number_is_best() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 2))
    path = center_path(rows, np.ones(500), 60)
    price, k = price_of(path, 40, None)
    costs = path.inertias + price * np.arange(1, len(path.inertias) + 1)
    assert int(np.argmin(costs)) + 1 == k
    assert abs(k - 40) <= 3
    assert price_of(path, 40, 1e9) == (1e9, 1)


def test_many_rows_choose_by_a_sample_and_one_pass() -> None:
    source, passes = CountedPasses(CIRCLES, None), []
    object.__setattr__(source, "passes", passes)
    assert source.summary.weight == len(CIRCLES)  # is known before any choice
    passes.clear()
    found = AutoLinkage(Method(1.0, -0.5), {}).choose(source, 0)
    assert (found.passes, passes) == (1, ["sample"])
    assert found.choice.n_clusters == 2
    assert found.choice.rows_used < len(CIRCLES)
    assert choose(source, 0)[0] == found.choice
    assert choose(source, 1)[0] != found.choice


def test_a_stored_penalty_of_more_than_0_is_refused() -> None:
    told = chosen(CIRCLES[:500]).as_json()
    told["alternatives"][0]["penalty"] = 1.0
    with pytest.raises(ValueError, match=r"choice\.penalty cannot be 1"):
        LinkageChoice.from_json(told)


def test_a_choice_keeps_the_cuts_of_fewer_micro_clusters_for_the_fit() -> None:
    levels = choose(sources.as_source(CIRCLES[:500]), 0)[1]
    assert len(levels.coarser) == round(COARSER * len(levels.cuts)) < len(levels.cuts)


def test_a_number_or_a_penalty_that_is_given_is_kept() -> None:
    asked = chosen(CIRCLES[:500], n_clusters=7)
    assert asked.n_clusters == 7
    assert -1 <= asked.penalty < 0
    assert asked.headline == "7 clusters, with a number or a price given"
    assert "7 clusters, with a number of clusters or a price given" in asked.reason
    given_prices = chosen(CIRCLES[:500], micro_penalty=0.3, penalty=-0.2).penalties
    assert given_prices == {"micro_penalty": 0.3, "penalty": -0.2}


@pytest.mark.parametrize("d", [5, 10])
def test_as_many_touching_balls_as_cuts_are_balls_in_many_dimensions(d: int) -> None:
    centers = 3.0 * np.eye(d)[:2].repeat(2, axis=0) * np.array([1, -1, 1, -1])[:, np.newaxis]
    found = chosen(make_blobs(600, centers=centers, random_state=0)[0])
    assert (found.n_clusters, found.chosen.balls) == (4, True)


def test_a_cut_that_the_fit_does_not_see_is_one_cluster_unless_rows_are_balls() -> None:
    found = Levels(
        price=1.0,
        cuts=np.array([0.0, 0.3, 0.7, 1.2]),
        n_rows=400,
        dimension=2.0,
        balls=None,
        coarser=np.array([0.0, 0.3, 0.6]),
        one_if_uncut=True,
    )
    unclear = found.of_fit(np.array([0.0, 0.3, 0.61, 0.93]))
    assert unclear.best.n_clusters > 1
    assert unclear.score_of(unclear.best) < LEAST_SCORE
    assert unclear.chosen.n_clusters == 1
    assert replace(unclear, one_if_uncut=False).chosen == unclear.best
    clear = found.of_fit(np.array([0.0, 0.01, 0.9, 1.8]))
    assert clear.score_of(clear.best) >= LEAST_SCORE
    assert clear.chosen == clear.best


def test_a_normal_cloud_that_a_summary_cuts_is_one_cluster_after_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its cut scored more than 1 on the summary, and .7 on the mean with the fit."""
    rows = np.random.default_rng([77, 40, 0]).standard_normal((200, 2))
    monkeypatch.setattr(chooser.CutEvidenceJob, "__call__", lambda *_: 9.0)
    assert chosen(rows).n_clusters == 2
    model = LinkageDPMeans(random_state=0).fit(rows)
    assert (model.n_clusters_, model.choice_.n_clusters) == (1, 1)
    assert (
        "but not on the mean of them and of the micro-clusters of the fit" in model.choice_.reason
    )
    assert model.choice_.headline == "1 cluster: no cut is clear on the micro-clusters of the fit"
    again = LinkageDPMeans(**model.choice_.penalties, random_state=0).fit(rows)
    assert again.n_clusters_ == 1


@pytest.mark.parametrize("draw", [0, 2])
def test_columns_with_tails_are_not_cut(draw: int) -> None:
    """Rows of independent columns with the same tails are cut as well; even rows are not."""
    rows = np.random.default_rng([77, 45, draw]).standard_t(2, (1000, 5))
    job = chooser.CutEvidenceJob(ChoiceParameters(0, spherical=False), 3)
    found = job(InMemoryRows(rows, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chooser.OneModeClouds, "of", lambda *_: None)
        assert job(InMemoryRows(rows, None)) > found


@pytest.mark.parametrize(
    ("scale", "message"),
    [(1e-200, "underflows float64: multiply the weights"), (1e200, "overflows float64: divide")],
)
def test_weights_whose_squares_are_no_numbers_are_refused(scale: float, message: str) -> None:
    weights = scale * np.linspace(1, 2, 60)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(InputError, match=f"the square of the sum of sample_weight.*{message}"):
        LinkageDPMeans(random_state=0).fit(rows, sample_weight=weights)
