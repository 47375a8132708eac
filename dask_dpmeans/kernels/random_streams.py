"""Random numbers by name: no two uses of one seed share a stream.

Bits that hang on a number alone, such as the number of a row, come from SplitMix64: a generator for
each block would take longer.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from dask_dpmeans.kernels.numba_support import compile_loop, plain

WORD = 2**32 - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio, by which SplitMix64 counts."""


class Stream(IntEnum):
    """A use of random numbers.  The values never change, because results depend on them."""

    CORESET_SAMPLE = 1
    CORESET_SEEDS = 2
    CORESET_DRAW = 3
    RESTARTS = 4
    CROSSOVERS = 5
    SEARCH = 6
    STABILITY = 7
    HDP_SEARCH = 8
    KERNEL_PIECES = 9
    KERNEL_REGROUPING = 10
    GRAMIAN_SYMMETRY = 11
    GRAPH_ROUNDS = 12
    GIBBS_SWEEP = 13
    LANDMARKS = 14
    EIGENVECTORS = 15
    FEATURE_SAMPLE = 16
    UNIFORM_CLOUDS = 17
    HALVES = 18
    RANDOM_GRAPHS = 19
    CLOUD_ROWS = 20
    POPULATION = 21
    SHORT_SEARCHES = 22
    NEAR_ROWS = 23
    TIES = 24


def seed_sequence(seed: int, use: Stream, *numbers: int) -> np.random.SeedSequence:
    """Return the seed sequence of a use.

    NumPy pads a list of seeds with zeros, so that ``[s, 1]`` and ``[s, 1, 0]`` give the same
    numbers. Here each number takes two words of 32 bits of the spawn key, whose length counts.

    Parameters
    ----------
    seed : seed of the fit
    use : what the numbers are for
    numbers : numbers of the step, block or round, at least 0 and less than 2**64
    """
    words = [word for number in (use, *numbers) for word in (number & WORD, number >> 32)]
    return np.random.SeedSequence(seed, spawn_key=words)


def stream(seed: int, use: Stream, *numbers: int) -> np.random.Generator:
    """Return a generator of the random numbers of a use; parameters as in `seed_sequence`."""
    return np.random.default_rng(seed_sequence(seed, use, *numbers))


@compile_loop
def mix(bits: Any) -> Any:
    """Return pseudo-random bits of np.uint64 bits, by SplitMix64 (Steele, Lea & Flood 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


mix_array = plain(mix)
"""`mix` for arrays of bits, of any shape."""
