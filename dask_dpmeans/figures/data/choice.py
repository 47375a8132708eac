"""The numbers of clusters that a choice of the penalty compared."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.figures.data.columns import Model, attribute
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice, score


class Numbers(NamedTuple):
    """The m numbers of clusters that are each the best at some penalties, by rising penalty."""

    n_clusters: Int64Array
    """(m,), falling."""
    low: Float64Array
    """(m,), penalties below give more clusters."""
    high: Float64Array
    """(m,), penalties above give fewer clusters."""
    scores: Float64Array
    """(m,), of alternatives and of others; NaN for 1 and for numbers that could not be chosen."""
    alternatives: tuple[Alternative, ...]
    """The chosen number, then the others by falling score."""
    headline: str
    """The chosen number and why, in a few words."""


def choice_of(model: Model | Choice) -> Choice:
    """Return the choice of the penalty of a fitted estimator."""
    if isinstance(model, Choice):
        return model
    found = attribute(model, "choice_", "choice of a penalty")
    if not isinstance(found, Choice):
        raise InputError('the penalty was not chosen from the rows: fit with penalty="auto"')
    return found


def choice(model: Model | Choice) -> Numbers:
    """Return the numbers of clusters that a choice of the penalty compared.

    Parameters
    ----------
    model : an estimator that was fitted with ``penalty="auto"``, or its `choice_`
    """
    found = choice_of(model)
    if len(found.intervals) == 1:
        reason = f"only {found.n_clusters} cluster was tried"
        raise InputError(f"{reason}: there are no other numbers of clusters to show")
    falling = [(each.n_clusters, each.low, each.high, score(each)) for each in found.intervals]
    numbers, low, high, scores = (np.array(column) for column in zip(*falling, strict=True))
    scores[(numbers == 1) | (numbers > found.largest)] = np.nan
    return Numbers(numbers, low, high, scores, found.alternatives, found.headline)
