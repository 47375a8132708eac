"""What holds for divergences, holes and outliers whatever the rows are: units, names, extremes, and errors."""

import math

import numpy as np
import pandas as pd
import pytest
from rows_cases import FLOOR, MIXED, NAMED, ROWS, Case
from rows_reference import OUTLIER, Price, table

from dask_dpmeans import DPMeans, InputError
from dask_dpmeans.methods.dpmeans import row_exchange, search

pytestmark = pytest.mark.usefixtures("few_kicks")
all_kicks = pytest.mark.usefixtures("every_kick")
SEEDS = range(4)
DIVERGENCES = [name for name in ROWS if name != "cosine"]
"""Names of divergences, ..."""
SINGLE = [name for name in DIVERGENCES if name != "mixed"]
"""... of those of all columns."""
POSITIVE = {"itakura-saito", "multinomial"}
TIED = {"poisson", "bernoulli", "categorical"}
"""Divergences at which many rows cost equally much at two centers, so that rounding decides."""


@pytest.fixture
def every_kick(monkeypatch, few_kicks):
    """Searches that are to end alike by different ways take all kicks."""
    monkeypatch.setattr(search, "KICKS", row_exchange.KICKS)


def search_of(instance, X=None, **parameters):
    """The end of the search on the rows of an instance, or on others of the same weights."""
    model = instance.model(search=True, random_state=0, **parameters)
    return model.fit(instance.rows.X if X is None else X, sample_weight=instance.rows.weights)


def fit_of(X, divergence, penalty, **parameters):
    model = DPMeans(penalty, search=True, divergence=divergence, random_state=0, **parameters)
    return model.fit(X)


def same_partition(first, second):
    return np.asarray(first.labels_).tolist() == np.asarray(second.labels_).tolist()


# Units and names


@pytest.mark.parametrize("seed", SEEDS)
def test_units_of_each_column_do_not_count_for_itakura_saito(seed):
    instance = Case("itakura-saito").instance(seed, 30)
    plain = search_of(instance)
    scaled = search_of(instance, instance.rows.X * [2.0**20, 1.0, 2.0**-30])
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert same_partition(scaled, plain)


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_and_the_penalty_are_in_one_unit(seed):
    instance = Case("poisson").instance(seed, 30)
    plain = search_of(instance)
    scaled = search_of(instance, instance.rows.X * 64, penalty=instance.price.penalty * 64)
    assert scaled.objective_ == pytest.approx(plain.objective_ * 64, rel=1e-9)
    assert same_partition(scaled, plain)


@pytest.mark.parametrize("seed", SEEDS)
def test_lengths_of_documents_do_not_count(seed):
    instance = Case("multinomial").instance(seed, 30)
    plain = search_of(instance)
    lengths = 2.0 ** np.random.default_rng(seed).integers(-5, 20, (30, 1))
    other = search_of(instance, instance.rows.X * lengths)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert same_partition(other, plain)


@all_kicks
@pytest.mark.parametrize("seed", SEEDS)
def test_zeros_and_ones_can_be_exchanged(seed):
    instance = Case("bernoulli").instance(seed, 12)
    plain, other = search_of(instance), search_of(instance, 1 - instance.rows.X)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


@all_kicks
@pytest.mark.parametrize("seed", SEEDS)
def test_two_categories_cost_what_zeros_and_ones_do(seed):
    instance = Case("bernoulli").instance(seed, 12)
    instance.rows.X[:2] = [[0.0], [1.0]]
    plain, other = search_of(instance), search_of(instance, divergence="categorical")
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


@all_kicks
@pytest.mark.parametrize("name", ["categorical", "categorical missing"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_categories_changes_no_cost(name, seed):
    instance = NAMED[name].instance(seed, 12)
    X = instance.rows.X
    renamed = np.where(np.isnan(X), np.nan, (2 - X) % 3)
    assert np.nanmax(X) == np.nanmax(renamed) == 2
    plain, other = search_of(instance), search_of(instance, renamed)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


@pytest.mark.parametrize("searching", [False, True])
def test_gamma_is_another_name_of_itakura_saito(searching):
    instance = Case("itakura-saito").instance(0, 30)
    X = instance.rows.X
    one, other = (
        instance.model(search=searching, divergence=name, random_state=0).fit(X)
        for name in ("itakura-saito", "gamma")
    )
    assert one.objective_ == other.objective_
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()


@pytest.mark.parametrize("searching", [False, True])
@pytest.mark.parametrize(
    "said", [{"divergence": "squared"}, {"discount": 0.0}, {"outlier_penalty": None}]
)
def test_defaults_that_are_said_change_no_byte(searching, said):
    X = np.random.default_rng(0).normal(size=(300, 3))
    plain = DPMeans(3.0, search=searching, random_state=0).fit(X)
    other = DPMeans(3.0, search=searching, random_state=0, **said).fit(X)
    assert plain.objective_ == other.objective_
    assert plain.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert plain.labels_.tobytes() == other.labels_.tobytes()


@pytest.mark.parametrize("name", [name for name in DIVERGENCES if name != "multinomial"])
def test_where_nothing_is_missing_what_is_missing_makes_no_difference(name, request):
    if name in TIED:
        request.getfixturevalue("every_kick")
    for seed in SEEDS:
        instance = Case(name).instance(seed, 30)
        plain = search_of(instance)
        for missing in ("observed", "unscaled"):
            other = search_of(instance, missing=missing)
            assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_miss_as_many_columns_cost_all_columns_over_observed_ones_times_more(seed):
    X = np.random.default_rng(seed).normal(size=(12, 4))
    for row, (first, second) in enumerate(zip(range(12), range(1, 13), strict=True)):
        X[row, [first % 4, second % 4]] = np.nan
    scaled = fit_of(X, "squared", 4.0, missing="observed")
    plain = fit_of(X, "squared", 2.0, missing="unscaled")
    assert scaled.objective_ == pytest.approx(2 * plain.objective_, rel=1e-9)


@pytest.mark.parametrize("name", SINGLE)
def test_outliers_at_a_price_that_nothing_costs_are_none(name):
    for seed in SEEDS:
        instance = Case(name).instance(seed, 12)
        plain = search_of(instance)
        other = search_of(instance, outlier_penalty=1e3 * plain.objective_)
        assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)
        assert OUTLIER not in other.labels_


def test_a_row_far_from_all_others_is_an_outlier_and_drags_no_center():
    X = np.concatenate([np.random.default_rng(0).normal(size=(200, 2)), [[50.0, 50.0]]])
    model = DPMeans(500.0, search=True, outlier_penalty=30.0, random_state=0).fit(X)
    assert np.flatnonzero(model.labels_ == OUTLIER).tolist() == [200]
    np.testing.assert_allclose(model.cluster_centers_, [X[:200].mean(axis=0)], atol=1e-9)
    assert model.objective_ == pytest.approx(((X[:200] - X[:200].mean(0)) ** 2).sum() + 530)
    assert model.cluster_weights_.tolist() == [200.0]
    assert model.predict([[0.0, 0.0], [40.0, -40.0]]).tolist() == [0, OUTLIER]


@all_kicks
@pytest.mark.parametrize("name", ["squared outliers", "mixed missing outliers", "poisson"])
def test_rows_without_weight_change_no_cluster(name):
    for seed in SEEDS:
        instance = NAMED[name].instance(seed, 20)
        weights = np.where(np.arange(20) % 4 == 0, 0.0, instance.rows.weights)
        weighty = weights > 0
        if "mixed" in name:  # a category that no row with weight has is another column
            instance.rows.X[~weighty, 2] = np.nan
        X, model = instance.rows.X, instance.model(search=True, random_state=0)
        all_rows = model.fit(X, sample_weight=weights).objective_
        assert all_rows == pytest.approx(
            model.fit(X[weighty], sample_weight=weights[weighty]).objective_, rel=1e-9
        )


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "categorical", "multinomial"])
def test_smoothing_is_the_weight_of_the_mean_of_all_rows(name):
    instance = Case(name).instance(0, 15)
    model = search_of(instance, smoothing=0.7)
    rows = table(instance.rows.X, name, instance.rows.weights, prior=0.7)
    wanted = rows.objective(model.labels_, instance.price)
    assert model.objective_ == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "balanced"), [("squared", True), ("poisson", True), ("mixed", False)]
)
def test_columns_are_balanced_if_asked(name, balanced):
    case = Case(name)
    instance = case.instance(1, 15)
    kinds = case.kinds if name == "mixed" else (name,) * instance.rows.X.shape[1]
    rows = table(instance.rows.X, kinds, instance.rows.weights, scaled=balanced)
    penalty = 0.2 * rows.inertia(range(15))
    model = search_of(instance, penalty=penalty, balance_columns=balanced)
    assert model.objective_ == pytest.approx(
        rows.objective(model.labels_, Price(penalty)), rel=1e-9
    )


# Extremes


def assert_reference(X, kind, model, penalty, **options):
    """The objective is what the reference gives for the labels."""
    rows = table(X, kind, **options)
    wanted = rows.objective(model.labels_, Price(penalty))
    assert math.isfinite(model.objective_)
    assert model.objective_ == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("searching", [False, True])
def test_one_row_is_one_cluster(name, searching):
    X = np.array([[1.0, 1.0, 1.0]])
    model = DPMeans(2.0, search=searching, divergence=name, random_state=0).fit(X)
    assert model.labels_.tolist() == [0]
    assert model.objective_ == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("searching", [False, True])
def test_equal_rows_are_one_cluster_that_costs_nothing(name, searching):
    X = np.tile([[1.0, 1.0, 0.0 if name not in POSITIVE else 1.0]], (20, 1))
    model = DPMeans(0.5, search=searching, divergence=name, random_state=0).fit(X)
    assert set(model.labels_.tolist()) == {0}
    assert model.objective_ == pytest.approx(0.5, abs=1e-9)
    assert np.isfinite(model.cluster_centers_).all()


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "multinomial", "categorical", "squared"])
def test_columns_of_zeros_cost_nothing(name):
    for seed in SEEDS:
        instance = Case(name).instance(seed, 15)
        zeros = np.column_stack([instance.rows.X, np.zeros(15)])
        plain, other = search_of(instance), search_of(instance, zeros)
        assert other.objective_ == pytest.approx(plain.objective_, rel=1e-9)
        assert np.isfinite(other.cluster_centers_).all()


def test_constant_columns_of_a_mixed_table_cost_nothing():
    instance = Case("mixed").instance(1, 15)
    X = np.column_stack([instance.rows.X, np.full(15, 7.0), np.zeros(15)])
    other = search_of(instance, X, divergence=dict(enumerate((*MIXED, "poisson", "categorical"))))
    wanted = instance.rows.objective(other.labels_, instance.price)
    assert other.objective_ == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", ["squared", "poisson", "categorical"])
def test_a_column_of_which_nothing_was_observed_changes_no_label(name):
    instance = NAMED[f"{name} missing"].instance(2, 15)
    X = np.column_stack([instance.rows.X, np.full(15, np.nan)])
    model = search_of(instance, X)
    rows = table(X, name, instance.rows.weights)
    wanted = rows.objective(model.labels_, instance.price)
    assert model.objective_ == pytest.approx(wanted, rel=1e-9)
    assert set(model.labels_[rows.factors == 0].tolist()) <= {OUTLIER}


def test_a_row_of_which_nothing_was_observed_gets_no_label_and_costs_nothing():
    X = np.array([[0.0, 0.0], [np.nan, np.nan], [0.5, np.nan], [np.nan, 9.0], [9.0, 9.0]])
    model = fit_of(X, "squared", 3.0, missing="observed")
    first, nothing, second, *others = model.labels_.tolist()
    assert (nothing, second) == (OUTLIER, first)
    assert others == [1 - first] * 2
    assert_reference(X, "squared", model, 3.0)
    assert model.predict(X).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
def test_new_rows_of_which_nothing_was_observed_get_no_label_whatever_is_beside_them(form):
    X = np.array([[0.0, 0.0], [0.5, np.nan], [np.nan, 9.0], [9.0, 9.0]])
    model, nothing = fit_of(X, "squared", 3.0, missing="observed"), np.full((2, 2), np.nan)
    assert model.predict(form(np.concatenate([X, nothing])))[-2:].tolist() == [OUTLIER] * 2
    assert model.predict(form(nothing)).tolist() == [OUTLIER] * 2
    assert model.score(nothing) == 0
    assert model.impute(nothing).tolist() == [[9.5 / 3, 6.0]] * 2


@pytest.mark.parametrize("size", [1e12, 1e-12])
@pytest.mark.parametrize("name", ["poisson", "itakura-saito", "multinomial", "squared"])
def test_huge_and_tiny_numbers_cost_what_the_reference_says(name, size):
    for seed in SEEDS:
        X = ROWS[name](np.random.default_rng(seed), 20).astype(float) * size
        penalty = 0.2 * table(X, name).inertia(range(20))
        assert_reference(X, name, fit_of(X, name, penalty), penalty)


@pytest.mark.parametrize("name", ["poisson", "itakura-saito", "multinomial"])
def test_numbers_of_very_different_sizes_cost_what_the_reference_says(name):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = np.floor(10 ** rng.uniform(0, 12, (20, 3)))
        penalty = 0.02 * table(X, name).inertia(range(20))
        assert_reference(X, name, fit_of(X, name, penalty), penalty)


def test_a_discount_falls_to_a_tenth_of_the_penalty():
    X = 100.0 * np.arange(30)[:, np.newaxis]
    model = DPMeans(1.0, search=True, discount=0.4, random_state=0).fit(X)
    assert model.n_clusters_ == 30
    assert model.objective_ == pytest.approx(Price(1.0, 0.4, FLOOR).of(30), rel=1e-9)


# Data frames


def frame_of(X):
    """A data frame whose last column is of categories."""
    names = np.array(["no", "red", "yes"])
    colors = pd.Categorical.from_codes(np.nan_to_num(X[:, 2], nan=-1).astype(int), names)
    return pd.DataFrame({"age": X[:, 0], "visits": X[:, 1], "color": colors})


@pytest.mark.parametrize("missing", ["error", "observed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_a_data_frame_are_named_and_its_categories_are_codes(seed, missing):
    instance = Case("mixed", missing=missing).instance(seed, 15)
    instance.rows.X[:3, 2] = [0, 1, 2]
    plain = search_of(instance)
    by_name = dict(zip(("age", "visits", "color"), MIXED, strict=True))
    named = search_of(instance, frame_of(instance.rows.X), divergence=by_name)
    assert named.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert same_partition(named, plain)


@pytest.mark.parametrize("missing", ["error", "observed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_takes_categories_from_the_data_frame_and_squares_of_the_rest(seed, missing):
    instance = Case("mixed", missing=missing).instance(seed, 15)
    X = instance.rows.X
    X[:3, 2] = [0, 1, 2]
    model = search_of(instance, frame_of(X), divergence="mixed")
    rows = table(X, ("squared", "squared", "categorical"), instance.rows.weights)
    wanted = rows.objective(model.labels_, instance.price)
    assert model.objective_ == pytest.approx(wanted, rel=1e-9)


# Holes filled


@pytest.mark.parametrize("name", ["squared missing", "poisson missing", "squared missing unscaled"])
def test_holes_are_filled_from_the_center_of_the_row_and_nothing_else_changes(name):
    instance = NAMED[name].instance(3, 40)
    model, X = search_of(instance), instance.rows.X
    filled, holes = model.impute(X), np.isnan(X)
    assert (filled[~holes] == X[~holes]).all()
    labeled = model.labels_ != OUTLIER
    wanted = model.cluster_centers_[model.labels_[labeled]]
    np.testing.assert_allclose(filled[labeled][holes[labeled]], wanted[holes[labeled]], rtol=1e-12)
    assert np.isfinite(filled).all()


# Errors


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("poisson", -1.0, "-1"),
        ("bernoulli", 2.0, "2"),
        ("itakura-saito", 0.0, "0"),
        ("itakura-saito", -3.0, "-3"),
        ("multinomial", -1.0, "-1"),
        ("categorical", 0.5, "0.5"),
        ("categorical", -1.0, "-1"),
    ],
)
@pytest.mark.parametrize("searching", [False, True])
def test_a_number_that_a_divergence_cannot_take_is_an_error_that_names_row_and_column(
    name, value, says, searching
):
    X = np.ones((9, 3))
    X[5, 1] = value
    model = DPMeans(1.0, search=searching, divergence=name, random_state=0)
    with pytest.raises(
        InputError, match=rf"(?s)(row 5.*column 1|column 1.*row 5).*|{says}"
    ) as told:
        model.fit(X)
    for part in ("row 5", "column 1", says):
        assert part in str(told.value)


def test_a_row_of_zeros_has_no_proportions():
    X = np.ones((9, 3))
    X[4] = 0.0
    with pytest.raises(InputError, match=r"row 4.*not all 0 in a row: .* remove it"):
        fit_of(X, "multinomial", 1.0)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_missing_values_are_an_error_by_default(name):
    X = np.ones((9, 3))
    X[5, 1] = np.nan
    divergence = dict(enumerate(MIXED)) if name == "mixed" else name
    with pytest.raises(InputError, match=r"(?i)nan"):
        fit_of(X, divergence, 1.0)


def test_weights_of_zero_are_told_from_rows_without_values():
    X = np.array([[np.nan, np.nan], [1.0, 2.0]])
    model = DPMeans(1.0, missing="observed")
    with pytest.raises(InputError, match="every row with a value has a sample_weight of zero"):
        model.fit(X, sample_weight=[1, 0])
    with pytest.raises(InputError, match="every sample_weight is zero"):
        model.fit(X[1:], sample_weight=[0])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_not_a_missing_value(value):
    X = np.ones((9, 3))
    X[5, 1] = value
    with pytest.raises(InputError, match=r"row 5"):
        fit_of(X, "squared", 1.0, missing="observed")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"divergence": "gaussian"}, "divergence"),
        ({"divergence": {}}, "divergence"),
        ({"divergence": {0: "gaussian"}}, "divergence"),
        ({"divergence": {0: "poisson", 1: "squared", 7: "squared"}}, "divergence"),
        ({"missing": "drop"}, "missing"),
        ({"outlier_penalty": 0.0}, "outlier_penalty"),
        ({"outlier_penalty": -1.0}, "outlier_penalty"),
        ({"outlier_penalty": np.nan}, "outlier_penalty"),
        ({"outlier_share": 1.0}, "outlier_share"),
        ({"outlier_share": -0.1}, "outlier_share"),
        ({"outlier_share": 0.1, "outlier_penalty": 1.0}, "outlier_share"),
        ({"min_cluster_weight": -1.0}, "min_cluster_weight"),
        ({"discount": -0.5}, "discount"),
        ({"discount": np.inf}, "discount"),
        ({"metric": "cosine", "divergence": "poisson"}, "divergence"),
        ({"metric": "cosine", "balance_columns": True}, "balance_columns=True"),
        (
            {"metric": "cosine", "missing": "observed"},
            "missing='observed'.*all its columns.*impute",
        ),
    ],
)
def test_parameters_that_make_no_sense_are_errors_that_name_them(given, names):
    X = 1.0 + np.arange(27.0).reshape(9, 3)
    with pytest.raises((InputError, ValueError), match=names):
        DPMeans(1.0, search=True, random_state=0, **given).fit(X)
