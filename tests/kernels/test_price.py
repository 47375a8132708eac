"""Prices of clusters: sums, changes and thresholds of a price that falls."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.kernels.price import FLOOR_SHARE, LinearPrice, PitmanYorPrice, price_of

PRICES = st.builds(
    PitmanYorPrice,
    penalty=st.floats(1.0, 1e6),
    discount=st.floats(1e-6, 1e7),
    floor=st.floats(1e-3, 1.0),
)


def one_by_one(price, k):
    """The prices of the clusters 1 to k."""
    return [max(price.floor, price.penalty - price.discount * math.log(j)) for j in range(1, k + 1)]


@given(PRICES, st.integers(0, 300))
def test_clusters_cost_the_sum_of_their_prices(price, k):
    assert price.of(k) == pytest.approx(math.fsum(one_by_one(price, k)), rel=1e-12)


@pytest.mark.parametrize("discount", [0.05, 0.0652, 0.5])
def test_a_million_clusters_cost_the_sum_of_their_prices(discount):
    price = PitmanYorPrice(1.0, discount, 0.1)
    assert price.of(10**6) == pytest.approx(math.fsum(one_by_one(price, 10**6)), rel=1e-13)
    assert (
        price.change(10**6, 10**6 + 1) == price.threshold(10**6) == one_by_one(price, 10**6 + 1)[-1]
    )


@given(PRICES, st.integers(0, 300), st.integers(0, 300))
def test_a_change_is_the_sum_of_the_prices_between_to_the_last_bit(price, before, after):
    fewer, more = sorted([before, after])
    between = math.fsum(one_by_one(price, more)[fewer:])
    assert price.change(before, after) == (between if after > before else -between)


@given(PRICES)
def test_each_cluster_costs_at_most_as_much_as_the_one_before_and_never_less_than_the_floor(price):
    thresholds = [price.threshold(k) for k in range(200)]
    assert thresholds[0] == price.penalty
    assert all(more <= fewer for fewer, more in pairwise(thresholds))
    assert min(thresholds) >= price.floor
    assert all(more > fewer for fewer, more in pairwise(map(price.of, range(200))))


@given(PRICES, st.floats(1e-3, 1e3), st.integers(0, 99))
def test_a_price_for_lighter_rows_is_the_price_over_their_weight(price, weight, k):
    divided = price.divide(weight)
    assert divided.of(k) == pytest.approx(price.of(k) / weight, rel=1e-12)
    assert divided.threshold(k) == pytest.approx(price.threshold(k) / weight, rel=1e-12)


def test_a_divided_price_is_finite():
    greatest = np.finfo(float).max
    assert PitmanYorPrice(1e300, 1e299, 1e298).divide(1e-300).penalty == greatest


def test_without_a_discount_each_cluster_costs_the_penalty():
    assert price_of(3.0, 0.0) == LinearPrice(3.0)
    assert price_of(3.0, 0.5) == PitmanYorPrice(3.0, 0.5, FLOOR_SHARE * 3.0)
    assert price_of(3.0, 0.5, 1.0) == PitmanYorPrice(3.0, 0.5, 1.0)


def test_errors_name_the_parameters_of_a_price():
    assert LinearPrice(3.0).describe() == "penalty=3"
    assert price_of(3.0, 0.5).describe() == "penalty=3, discount=0.5"
