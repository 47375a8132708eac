"""Compiled loops of `membership`, which return the same bytes as its NumPy code."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, IntegerArray, Labels
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part
from dask_dpmeans.kernels.sparse_rows import Probabilities

FIRST = 2**31 - 1
"""The lower half of the key of the first term of a row."""


@compile_loop
def grouped_compiled(
    starts: IndexArray,
    numbers: IntegerArray,
    terms: Float64Array,
    groups: IndexArray,
    memory: tuple[Float64Array, Labels],
    new_starts: IndexArray,
    new_numbers: Labels,
    new_terms: Float64Array,
) -> None:
    """Fill in the clusters, (m,), of CSR rows of components; see `Candidates.grouped`.

    `groups` are (k,); `memory` is of clusters: zeros, and space for numbers.
    """
    sums, seen = memory
    filled = 0
    for i in range(len(starts) - 1):
        new_starts[i], used = filled, 0
        for j in range(starts[i], starts[i + 1]):
            group = groups[numbers[j]]
            if sums[group] == 0:
                place = used
                while place > 0 and seen[place - 1] > group:
                    seen[place] = seen[place - 1]
                    place -= 1
                seen[place] = group
                used += 1
            sums[group] += terms[j]
        for place in range(used):
            new_numbers[filled], new_terms[filled] = seen[place], sums[seen[place]]
            sums[seen[place]] = 0
            filled += 1
    new_starts[-1] = filled


@compile_part
def _limit(terms: Float64Array, start: int, stop: int, own: float) -> float:
    """Return the average of `own` and the terms of a row above that average."""
    limit, mean = own, np.inf
    while True:
        total, count = own, 1
        for j in range(start, stop):
            if terms[j] > limit:
                total += terms[j]
                count += 1
        mean = total / count
        if not mean > limit:
            return limit
        limit = mean


@compile_part
def _put_shares(
    terms: Float64Array,
    numbers: IntegerArray,
    keys: Int64Array,
    limit: float,
    total: float,
    labels: Labels,
    probabilities: Probabilities,
) -> None:
    """Fill in the labels and the probabilities of a row, (top,), from the second on.

    `terms` and `numbers`, (m,), are of the row; `keys`, (top,), tell the greatest.
    """
    used, first = min(len(terms), len(labels)), probabilities[0]
    before, below = first, first * np.float32(1 - 2.0**-24)
    for place in range(1, used):
        at = np.uint32(FIRST - (keys[place] & FIRST))
        share = np.float32((terms[at] if terms[at] < limit else limit) / total)
        if share >= first and numbers[at] < labels[0]:
            share = below
        before = share if share < before else before
        labels[place], probabilities[place] = numbers[at], before
    for place in range(used, len(labels)):
        labels[place], probabilities[place] = -1, 0


@compile_loop
def most_probable_compiled(
    own_labels: IndexArray,
    starts: IndexArray,
    numbers: IntegerArray,
    terms: Float64Array,
    labels: Labels,
    probabilities: Probabilities,
) -> None:
    """Fill in labels and probabilities, (n, top), of CSR rows of terms; see `most_probable`.

    The greatest terms are known by keys: their bits in float32, and below them how early they come.
    The label has the greatest key.  Terms come in any order, so the loop over them has no branches.
    """
    n, top = labels.shape
    keys, single = np.empty(top, np.int64), np.empty(1, np.float32)
    bits = single.view(np.int32)
    for i in range(n):
        label, start, stop = own_labels[i], starts[i], starts[i + 1]
        labels[i, 0], probabilities[i, 0] = label, 1
        if stop - start == 1:
            for place in range(1, top):
                labels[i, place], probabilities[i, place] = -1, 0
            continue
        total, own, most = 0.0, 0.0, 0.0
        for place in range(top):
            keys[place] = 0
        for j in range(start, stop):
            term, is_own = terms[j], numbers[j] == label
            total += term
            own = term if is_own else own
            most = term if term > most else most
            single[0] = term
            high = np.int64(FIRST) if is_own else np.int64(bits[0])
            key = (high << 32) + (FIRST - (j - start))
            for place in range(top):
                lower = min(keys[place], key)
                keys[place] = max(keys[place], key)
                key = lower
        limit = own
        if most > own:
            limit = _limit(terms, start, stop, own)
        probabilities[i, 0] = limit / total
        row = terms[start:stop], numbers[start:stop]
        _put_shares(*row, keys, limit, total, labels[i], probabilities[i])
