"""Why a number of clusters was chosen, as a person would say it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dask_dpmeans.methods.dpmeans.choice import (
    DOUBTED,
    LEADING,
    Alternative,
    Choice,
    leading_column,
)
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.sources import as_source

ONE = Alternative(1, 3000.0, 1000.0, 9000.0, 2.2, 1.0)
FIVE = Alternative(5, 30.0, 10.0, 90.0, 4.9, 0.99)
SEVEN = Alternative(7, 6.0, 4.0, 9.0, 4.5, 0.95)
NINE = Alternative(9, 2.5, 2.0, 3.0, 1.2, 0.6)
INTERVALS = (Interval(9, 2.0, 3.0), Interval(5, 10.0, 90.0), Interval(1, 1000.0, 9000.0))


def choice(
    *alternatives: Alternative, evidence: float = 9.0, tried: int = 40, rows: int = 400
) -> Choice:
    return Choice(alternatives, evidence, tried, int(0.8 * tried), rows, INTERVALS)


SHAPES = (
    "LinkageDPMeans, or the command shapes, looks for clusters of any shape, by squared distances."
)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (
            choice(FIVE, NINE),
            "5 clusters stay the best while the penalty grows 9 times, from 10 to 90. Larger "
            "numbers have shorter ranges; allowing for that, no other number up to 32 stays as long. "
            "Fits of halves of the rows agree on the 5 clusters (adjusted Rand index 0.99). Random rows "
            "without clusters divide less well: times "
            "the agreement of halves, the difference is 9.0 standard deviations, and 3 are needed.",
        ),
        (
            choice(replace(FIVE, stability=0.797), NINE),
            "5 clusters stay the best while the penalty grows 9 times, from 10 to 90. Larger "
            "numbers have shorter ranges; allowing for that, no other number up to 32 stays as long. "
            "Fits of halves of the rows agree little on the 5 clusters (adjusted Rand index 0.79), so they "
            f"may be there by chance. {SHAPES}",
        ),
        (
            choice(ONE, FIVE, evidence=2.97),
            "1 cluster. The best division is into 5, but random rows without clusters, spread evenly in "
            "the same directions or with columns as skewed, divide about as well: times "
            "the agreement of halves, the difference is 2.9 "
            f"standard deviations, and 3 are needed. {SHAPES}",
        ),
        (
            choice(ONE, replace(FIVE, stability=0.06), evidence=0.0),
            "1 cluster. The best division is into 5, but fits of halves of the rows do not agree on it: "
            f"their adjusted Rand index is 0.06. {SHAPES}",
        ),
        (
            choice(ONE, replace(FIVE, stability=-0.004), evidence=0.0),
            "1 cluster. The best division is into 5, but fits of halves of the rows do not agree on it: "
            f"their adjusted Rand index is 0.00. {SHAPES}",
        ),
        (choice(FIVE, ONE, rows=5), "5 clusters, because only so many rows differ: each is one."),
        (
            replace(choice(FIVE, NINE, evidence=1.25), apart=True),
            "5 clusters stay the best while the penalty grows 9 times, from 10 to 90. Larger "
            "numbers have shorter ranges; allowing for that, no other number up to 32 stays as long. "
            "Fits of halves of the rows agree on the 5 clusters (adjusted Rand index 0.99). Random rows "
            "without clusters divide about as well: times "
            "the agreement of halves, the difference is 1.2 standard deviations, and 3 are "
            "needed. But hardly any rows are between these clusters.",
        ),
        (choice(ONE, tried=1, rows=1), "1 cluster, because all rows are equal."),
        (choice(ONE, rows=3), "1 cluster, because too few rows differ for more."),
    ],
)
def test_a_reason_is_a_sentence(chosen: Choice, reason: str) -> None:
    assert chosen.reason == reason


def test_clusters_on_which_halves_agree_little_are_doubtful() -> None:
    below = np.nextafter(DOUBTED, 0)
    agreed = [choice(replace(FIVE, stability=each), NINE) for each in (below, DOUBTED)]
    assert [each.doubtful for each in agreed] == [True, False]
    assert ["by chance" in each.reason for each in agreed] == [True, False]
    assert not choice(replace(ONE, stability=below), NINE, evidence=1.0).doubtful


def test_a_reason_names_the_next_best_and_the_limit_if_they_are_near() -> None:
    told = "as long. Nearly as good: 7 clusters, at penalty 6. Fits of halves"
    doubted = replace(FIVE, stability=0.7)
    assert told in choice(FIVE, SEVEN).reason
    assert told in choice(doubted, replace(SEVEN, stability=0.7)).reason
    assert choice(FIVE, NINE, tried=9).reason.endswith(" More than 9 clusters were not tried.")
    assert "tried" not in choice(FIVE, NINE, tried=9, rows=9).reason  # no more rows differ


def test_a_reason_says_why_a_longer_range_was_not_taken() -> None:
    longer = replace(NINE, score=5.5)
    told = "9 clusters would stay longer, but halves of the rows "
    assert f"{told}agree less on them." in choice(FIVE, longer).reason
    stable = replace(longer, stability=1.0, replicated=0.3)
    assert f"{told}have as many over less of that range." in choice(FIVE, stable).reason


def test_the_numbers_of_a_reason_have_three_digits_and_no_exponent() -> None:
    large = replace(FIVE, low=329_392_501.0, high=2.1176e9)
    assert "grows 6.43 times, from 329,000,000 to 2,120,000,000." in choice(large, NINE).reason
    small = replace(FIVE, low=6407.3, high=411_439.0)
    assert "grows 64.2 times, from 6,410 to 411,000." in choice(small, NINE).reason


def test_another_number_of_clusters_of_the_fit_is_told_after_the_reason() -> None:
    chosen = choice(FIVE, NINE)
    assert chosen.explain(5) == chosen.reason
    told = "At the chosen penalty the fit has 6 clusters, not 5: "
    assert chosen.explain(6).startswith(f"{chosen.reason} {told}")


def test_a_choice_is_the_same_after_json() -> None:
    given = choice(FIVE, SEVEN)
    told = given.as_json()
    assert json.loads(json.dumps(told)) == told
    assert Choice.from_json(told) == given


@pytest.mark.parametrize("chosen", [choice(FIVE, NINE), choice(ONE, FIVE, evidence=1.25)])
def test_a_reason_names_a_column_beside_which_the_others_hardly_count(chosen: Choice) -> None:
    told = replace(chosen, leading="'salary'")
    assert told.reason.startswith(
        f"{chosen.reason} Column 'salary' holds nearly all of the squared"
    )
    assert "--scale std" in told.reason
    assert (chosen.unclear, told.unclear) == (False, True)


@settings(deadline=None)
@given(
    share=st.floats(0.9, 0.9999), d=st.integers(2, 4), place=st.integers(0, 3), named=st.booleans()
)
def test_a_column_leads_if_it_holds_nearly_all_of_the_squared_spread(
    share: float, d: int, place: int, named: bool
) -> None:
    place %= d
    lengths = np.full(d, np.sqrt((1 - share) / (d - 1)))
    lengths[place] = np.sqrt(share)
    rows = np.concatenate([np.diag(lengths), -np.diag(lengths)]) + 7.0
    source = as_source(rows)
    if named:
        layout = replace(source.layout, column_names=tuple("abcd"[:d]))
        source = replace(source, layout=layout)
    wanted = repr("abcd"[place]) if named else str(place)
    assume(abs(share - LEADING) > 1e-9)
    assert leading_column(source) == (wanted if share > LEADING else None)
    assert leading_column(as_source(rows, scale="std")) is None


def test_a_column_beside_constant_ones_does_not_lead() -> None:
    rows = np.outer(np.arange(9.0), [0.0, 5.0, 0.0]) + 3
    assert leading_column(as_source(rows)) is None
    assert leading_column(as_source(rows[:, 1:2])) is None


def test_a_choice_of_small_clusters_says_whether_its_own_lie_apart():
    whole, part = choice(FIVE, ONE), choice(NINE, ONE)
    for apart in (False, True):
        before = replace(whole, apart=not apart)
        found = before.with_small(2000, replace(part, apart=apart), 9000, slice(0, 1))
        assert found.apart is apart
