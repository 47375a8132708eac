"""Crossover: the centers of two searches make a third start (Gribel & Vidal 2019, HG-means, section 3.2).

There two sets of k centers are matched at the least total distance, and one of each pair is drawn.  Here the numbers of
centers differ, and may be large: centers that are nearest to each other make a pair, and of the others each is drawn
or left out, for the moves that follow mend the number.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, nearest


def crossed(first: Float64Array, second: Float64Array, random: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """Which of the first centers, (k, d), and which of the second, (l, d), are drawn: numbers, rising.

    That is at least one in all, for the two that are closest make a pair.
    """
    of_first, of_second = nearest(first, Centers(second)), nearest(second, Centers(first))
    paired = of_second[of_first] == np.arange(len(first))
    drawn = random.random(len(first)) < 0.5
    drawn_second = random.random(len(second)) < 0.5
    drawn_second[of_first[paired]] = ~drawn[paired]
    return np.flatnonzero(drawn), np.flatnonzero(drawn_second)
