"""Random streams by name: no two uses of a seed draw the same numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.kernels.random_streams import Stream, stream

NUMBERS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=3).map(tuple)
USES = st.tuples(st.integers(0, 2**32 - 1) | st.integers(0, 3), st.sampled_from(Stream), NUMBERS)


def drawn(seed, use, numbers):
    return stream(seed, use, *numbers).integers(2**63, size=4).tolist()


@given(USES, USES)
def test_two_uses_share_no_numbers(first, second):
    assert (drawn(*first) == drawn(*second)) is (first == second)


@pytest.mark.parametrize(("shorter", "longer"), [((1,), (1, 0)), ((2**32,), (0, 1)), ((), (0,))])
def test_numbers_are_not_padded_nor_joined(shorter, longer):
    assert drawn(0, Stream.SEARCH, shorter) != drawn(0, Stream.SEARCH, longer)


def test_streams_keep_their_numbers():
    """The values enter each result that draws random numbers."""
    assert {use.name: use.value for use in Stream} == {
        "CORESET_SAMPLE": 1,
        "CORESET_SEEDS": 2,
        "CORESET_DRAW": 3,
        "RESTARTS": 4,
        "CROSSOVERS": 5,
        "SEARCH": 6,
        "STABILITY": 7,
        "HDP_SEARCH": 8,
        "KERNEL_PIECES": 9,
        "KERNEL_REGROUPING": 10,
        "GRAMIAN_SYMMETRY": 11,
        "GRAPH_ROUNDS": 12,
        "GIBBS_SWEEP": 13,
        "LANDMARKS": 14,
        "EIGENVECTORS": 15,
        "FEATURE_SAMPLE": 16,
        "UNIFORM_CLOUDS": 17,
        "HALVES": 18,
        "RANDOM_GRAPHS": 19,
        "CLOUD_ROWS": 20,
        "POPULATION": 21,
        "SHORT_SEARCHES": 22,
        "NEAR_ROWS": 23,
        "TIES": 24,
    }
    assert drawn(7, Stream.SEARCH, (3,)) == drawn(7, Stream.SEARCH, (3,))
