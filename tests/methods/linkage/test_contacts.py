"""Contacts of groups of centers, against loops over pairs and rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from scipy.stats import binom
from strategies import seeds

from dask_dpmeans.methods.linkage.contacts import LEVEL, MOST_ROWS, NEAR, contacts_of, neighbors


def drawn(seed, n, k):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 2))
    return rows, rng.integers(1, 4, n).astype(float), rows[rng.permutation(n)[:k]] + 0.01


def nearest_center(row, centers):
    return min(range(len(centers)), key=lambda c: sum((row - centers[c]) ** 2))


def slow_contacts(rows, weights, centers):
    """Rows between each two neighbors, rows in the middle, and the least distance, by pair."""
    found, counts = {}, weights * len(rows) / weights.sum()
    labels = np.array([nearest_center(row, centers) for row in rows])
    for one, other in itertools.combinations(range(len(centers)), 2):
        middle, half = (centers[one] + centers[other]) / 2, (centers[other] - centers[one]) / 2
        others = np.delete(centers, [one, other], axis=0)
        if any(sum((each - middle) ** 2) <= half @ half for each in others):
            continue
        between = inside = 0.0
        for row, count, label in zip(rows, counts, labels, strict=True):
            place = abs((row - middle) @ half) / (half @ half)
            if label in (one, other):
                between += count * (place <= 1)
                inside += count * (place < 0.5)
        pairs = itertools.product(rows[labels == one], rows[labels == other])
        least = min((np.hypot(*(a - b)) for a, b in pairs), default=np.inf)
        found[one, other] = between, inside, least
    return found, labels


@given(seeds, st.integers(12, 60), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_contacts_are_those_of_a_loop_over_pairs_and_rows(seed, n, k):
    rows, weights, centers = drawn(seed, n, k)
    found, (expected, labels) = (
        contacts_of(rows, weights, centers),
        slow_contacts(rows, weights, centers),
    )
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == list(expected)
    values = np.column_stack([found.between, found.middle, found.nearest])
    np.testing.assert_allclose(values, np.array(list(expected.values())), atol=1e-9)
    for center in range(k):
        part = rows[labels == center]
        assert found.edges[center] == max(len(part) - 1, 0)
        assert found.lengths[center] == pytest.approx(
            minimum_spanning_tree(cdist(part, part)).sum()
        )


@given(seeds, st.integers(20, 60), st.integers(4, 9), st.floats(0.0, 3.0))
@settings(max_examples=60, deadline=None)
def test_groups_touch_without_a_gap_and_with_rows_as_near_as_in_the_groups(seed, n, k, shift):
    rows, _, centers = drawn(seed, n, k)
    groups = np.arange(k) % 4
    rows[:, 0] += shift * (rows[:, 0] > 0)
    contacts, values = (
        contacts_of(rows, np.ones(n), centers),
        slow_contacts(rows, np.ones(n), centers),
    )
    touch = []
    for one, other in itertools.combinations(range(4), 2):
        of_both = [
            each for (a, b), each in values[0].items() if {groups[a], groups[b]} == {one, other}
        ]
        if not of_both:
            continue
        between, middle = (round(sum(each[place] for each in of_both)) for place in (0, 1))
        trees = [c for c in range(k) if groups[c] in (one, other)]
        mean = contacts.lengths[trees].sum() / max(contacts.edges[trees].sum(), 1)
        near = min(each[2] for each in of_both) <= NEAR * mean
        if near and binom.cdf(middle, between, 0.5) > LEVEL / k:
            touch.append((one, other))
    first, second, found = contacts.touching(groups)
    assert list(zip(first[found].tolist(), second[found].tolist(), strict=True)) == touch
    parts = list(range(4))
    for one, other in touch:
        parts = [parts[one] if each == parts[other] else each for each in parts]
    assert contacts.parts(groups) == len(set(parts))


def strip(seed, n):
    return np.random.default_rng(seed).uniform(size=(n, 2)) * [6.0, 0.5]


@pytest.mark.parametrize(("distance", "parts"), [(0.0, 1), (3.0, 2)])
@pytest.mark.parametrize("n", [100, 400, 4 * MOST_ROWS])
def test_pieces_of_a_strip_touch_unless_they_are_moved_apart(n, distance, parts):
    rows = strip(0, n)
    right = rows[:, 0] > 3
    rows[right, 0] += distance
    centers = np.stack([rows[~right].mean(axis=0), rows[right].mean(axis=0)])
    assert contacts_of(rows, np.ones(n), centers).parts(np.arange(2)) == parts


def test_without_near_rows_an_empty_middle_by_chance_is_no_contact():
    rows = np.array([[0.0, 0], [0.1, 0], [0.2, 0], [1.2, 0], [1.3, 0], [1.4, 0]])
    contacts = contacts_of(rows, np.ones(6), np.array([[0.1, 0], [1.3, 0]]))
    assert contacts.between.tolist() == [4.0]
    assert contacts.parts(np.arange(2)) == 2
    rows[3:, 0] -= 0.7
    contacts = contacts_of(rows, np.ones(6), np.array([[0.1, 0], [0.6, 0]]))
    assert contacts.parts(np.arange(2)) == 1


def test_units_of_rows_and_weights_do_not_matter():
    rows, weights, centers = drawn(0, 60, 6)
    one, other = (
        contacts_of(rows, weights, centers),
        contacts_of(4 * rows, 8 * weights, 4 * centers),
    )
    for name in ("first", "second", "between", "middle", "edges"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert (4 * one.nearest).tobytes() == other.nearest.tobytes()
    assert one.parts(np.arange(6) % 3) == other.parts(np.arange(6) % 3)


def test_a_center_without_rows_touches_nothing():
    rows = strip(0, 50)
    contacts = contacts_of(rows, np.ones(50), np.array([[3.0, 0.25], [90.0, 0.0]]))
    assert contacts.edges.tolist() == [49, 0]
    assert contacts.parts(np.arange(2)) == 2


def test_a_center_between_two_others_parts_them():
    first, second = neighbors(np.array([[0.0, 0], [2, 0], [1, 0.1]]))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 2), (1, 2)]
