"""Compiled loops over the links of nodes: sums by cluster, best moves and best partners.

They return the same bytes as the NumPy code in `gains` and `contraction`.  Links of a row are
added by cluster in a small hash table, so that a loop needs no memory for each cluster.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part
from dask_dpmeans.kernels.random_streams import mix

Links = tuple[IndexArray, IndexArray, Float64Array]
"""`indptr`, `indices` and `data` of a CSR array."""
Table = tuple[Int64Array, Float64Array, Int64Array]
"""Keys (-1 if free) and sums by slot, and the slots in use, in order of their first use."""
TotalParts = tuple[Float64Array, Float64Array, Int64Array, Float64Array]
"""Kept, masses, sizes and kept / mass of clusters, (k,)."""
Rule = tuple[float, float, bool]
"""Price of a cluster, least gain, whether the cut is the normalized one."""
MULTIPLIER = 2654435769
"""2**32 divided by the golden ratio: products are spread over the slots (Knuth 1973, 6.4)."""
FREE = -1
"""Key of a free slot; label of a node without links; target of a node that opens a cluster."""


def table_for(links: int) -> Table:
    """Return an empty table for up to this many different keys."""
    size = 1 << max(8, 4 * links - 1).bit_length()
    return np.full(size, FREE), np.zeros(size), np.zeros(size, np.int64)


@compile_part
def _add(table: Table, bits: int, used: int, key: int, value: float) -> int:
    """Add a value to the sum of a key, and return the number of keys."""
    keys, sums, slots = table
    slot = ((key * MULTIPLIER) & 0xFFFFFFFF) >> (32 - bits)
    while keys[slot] != key and keys[slot] != FREE:
        slot = (slot + 1) & ((1 << bits) - 1)
    # No branch on whether the key is new, which a processor cannot foresee.
    slots[used] = slot
    used += int(keys[slot] == FREE)
    keys[slot] = key
    sums[slot] += value
    return used


@compile_part
def _bits_for(links: int, limit: int) -> int:
    """Return the binary logarithm of the slots for up to `limit` keys of so many links."""
    bits = 4
    while 1 << bits < 4 * min(links, limit):
        bits += 1
    return bits


@compile_part
def _sum_links(
    row: tuple[IndexArray, Float64Array], node: int, labels: Labels, table: Table
) -> tuple[float, float, int]:
    """Add links of a node to sums by cluster; return their sum, the loop, and how many clusters."""
    indices, data = row
    degree, loop, used = 0.0, 0.0, 0
    bits = _bits_for(len(indices), len(indices))
    for position in range(len(indices)):
        degree += data[position]
        if indices[position] == node:
            loop += data[position]
        used = _add(table, bits, used, int(labels[indices[position]]), data[position])
    return degree, loop, used


@compile_part
def _best_move(
    row: tuple[IndexArray, Float64Array],
    node: int,
    labels: Labels,
    totals: TotalParts,
    rule: Rule,
    within: IndexArray,
    table: Table,
) -> tuple[int, float, float, float, float, float]:
    """Return target, gain, links to it, links to its own cluster, kept and mass of a node."""
    kept, masses, sizes, rates = totals
    keys, sums, slots = table
    price, _, normalized = rule
    own = labels[node]
    degree, loop, used = _sum_links(row, node, labels, table)
    mass, keeps, outside = 1.0, loop - degree, degree
    if normalized:
        mass, keeps, outside = degree, loop, 0.0
    home, target, best, to_target = 0.0, FREE, -np.inf, 0.0
    for number in range(used):
        slot = slots[number]
        cluster, weight = keys[slot], sums[slot]
        keys[slot], sums[slot] = FREE, 0.0
        if cluster == own:
            home = weight
        elif not within.size or within[cluster] == within[own]:
            joined = (kept[cluster] + 2 * weight + keeps) / (masses[cluster] + mass)
            joining = joined - rates[cluster]
            if joining > best or (joining == best and cluster < target):
                target, best, to_target = cluster, joining, weight
    if own < 0:
        return FREE, -np.inf, 0.0, 0.0, keeps, mass
    left, rest = kept[own] - 2 * (home - outside) + keeps, masses[own] - mass
    if rest > 0:
        left /= rest
    if sizes[own] <= 1:
        left = price
    elif mass > 0 and not within.size and keeps / mass - price > best:
        target, best, to_target = FREE, keeps / mass - price, 0.0
    return target, left - rates[own] + best, to_target, home - outside, keeps, mass


@compile_loop
def best_moves_loop(
    graph: Links,
    start: int,
    labels: Labels,
    totals: TotalParts,
    rule: Rule,
    within: IndexArray,
    table: Table,
    found: tuple[Int64Array, Float64Array],
) -> None:
    """Fill targets and gains of a run of nodes, (height,) each."""
    indptr, indices, data = graph
    targets, gains = found
    for i in range(len(targets)):
        first, end = indptr[i], indptr[i + 1]
        row = indices[first:end], data[first:end]
        move = _best_move(row, start + i, labels, totals, rule, within, table)
        targets[i], gains[i] = move[0], move[1]


@compile_loop
def move_in_turn(
    order: IndexArray,
    nodes: Int64Array,
    graph: Links,
    labels: Labels,
    totals: TotalParts,
    rule: Rule,
    within: IndexArray,
    table: Table,
    k: int,
) -> tuple[int, float]:
    """Move nodes, (m,), with links `graph`, in an order, each to its best cluster by then.

    Labels and totals change; totals have room for a new cluster of each node after the first k.
    Return the number of clusters and by how much the objective fell.
    """
    indptr, indices, data = graph
    kept, masses, sizes, rates = totals
    fell = 0.0
    for number in order:
        node = nodes[number]
        first, end = indptr[number], indptr[number + 1]
        row = indices[first:end], data[first:end]
        move = _best_move(row, node, labels, totals, rule, within, table)
        target, gain, to_target, home, keeps, mass = move
        if not gain > rule[1]:
            continue
        if target == FREE:
            target = k
            k += 1
        own = labels[node]
        labels[node] = target
        sizes[own] -= 1
        sizes[target] += 1
        kept[target] += 2 * to_target + keeps
        masses[target] += mass
        rates[target] = kept[target] / masses[target]
        kept[own] += keeps - 2 * home
        masses[own] -= mass
        if sizes[own] == 0:
            kept[own] = masses[own] = 0.0
        rates[own] = 0.0
        if masses[own] > 0:
            rates[own] = kept[own] / masses[own]
        fell += gain
    return k, fell


@compile_loop
def sum_links_loop(
    graph: Links,
    members: tuple[IndexArray, IndexArray],
    columns: Labels,
    ordered: bool,
    table: Table,
    sums: Links,
) -> None:
    """Fill the links of groups of rows: `ordered` by column number, or by first use.

    Members are their ends, (groups + 1,), and their rows.
    """
    indptr, indices, data = graph
    ends, rows = members
    keys, values, slots = table
    sum_ends, sum_columns, sum_values = sums
    done, limit = 0, len(keys) // 4
    order = np.empty(limit + 1, np.int64)
    for group in range(len(ends) - 1):
        links, used = 0, 0
        for member in range(ends[group], ends[group + 1]):
            links += indptr[rows[member] + 1] - indptr[rows[member]]
        bits = _bits_for(links, limit)
        for member in range(ends[group], ends[group + 1]):
            for position in range(indptr[rows[member]], indptr[rows[member] + 1]):
                column = int(columns[indices[position]])
                used = _add(table, bits, used, column, data[position])
        if ordered:
            for number in range(used):
                order[number] = keys[slots[number]] << 32 | slots[number]
            order[:used].sort()
            for number in range(used):
                slots[number] = order[number] & 0xFFFFFFFF
        for number in range(used):
            slot = slots[number]
            sum_columns[done + number], sum_values[done + number] = keys[slot], values[slot]
            keys[slot], values[slot] = FREE, 0.0
        done += used
        sum_ends[group + 1] = done


@compile_loop
def add_links_loop(
    left: tuple[IndexArray, Links],
    right: tuple[IndexArray, Links],
    masses: Float64Array,
    most: int,
    sums: tuple[IndexArray, Links],
) -> tuple[int, int]:
    """Fill the sums of the links of clusters, in ascending order, to others of masses (k,).

    Only the `most` heaviest links of a cluster stay.  Return the numbers of clusters and links.
    """
    clusters, (indptr, indices, data) = sums
    left_clusters, (left_ends, left_indices, left_data) = left
    right_clusters, (right_ends, right_indices, right_data) = right
    number_left, number_right, row, done = 0, 0, 0, 0
    while number_left < len(left_clusters) or number_right < len(right_clusters):
        in_left, in_right = number_left < len(left_clusters), number_right < len(right_clusters)
        if in_left and in_right:
            difference = left_clusters[number_left] - right_clusters[number_right]
            in_left, in_right = difference <= 0, difference >= 0
        a = a_end = b = b_end = 0
        if in_left:
            clusters[row] = left_clusters[number_left]
            a, a_end = left_ends[number_left], left_ends[number_left + 1]
            number_left += 1
        if in_right:
            clusters[row] = right_clusters[number_right]
            b, b_end = right_ends[number_right], right_ends[number_right + 1]
            number_right += 1
        left_row = left_indices[a:a_end], left_data[a:a_end]
        right_row = right_indices[b:b_end], right_data[b:b_end]
        end = _add_row(left_row, right_row, indices, data, done)
        if end - done > most:
            end = _keep_heaviest(indices, data, (done, end), clusters[row], masses, most)
        done = end
        row += 1
        indptr[row] = done
    return row, done


@compile_part
def _add_row(
    left: tuple[IndexArray, Float64Array],
    right: tuple[IndexArray, Float64Array],
    indices: IndexArray,
    data: Float64Array,
    done: int,
) -> int:
    """Fill sums, other than 0, of links by ascending column from `done` on; return their end."""
    left_indices, left_data = left
    right_indices, right_data = right
    a, b = 0, 0
    while a < len(left_data) and b < len(right_data):  # without branches on the links
        one, other = left_indices[a], right_indices[b]
        value = left_data[a] if one <= other else 0.0
        value += right_data[b] if other <= one else 0.0
        indices[done], data[done] = min(one, other), value
        a += int(one <= other)
        b += int(other <= one)
        done += int(value != 0)
    for position in range(a, len(left_data)):
        indices[done], data[done] = left_indices[position], left_data[position]
        done += int(left_data[position] != 0)
    for position in range(b, len(right_data)):
        indices[done], data[done] = right_indices[position], right_data[position]
        done += int(right_data[position] != 0)
    return done


@compile_part
def _keep_heaviest(
    indices: IndexArray,
    data: Float64Array,
    run: tuple[int, int],
    own: int,
    masses: Float64Array,
    most: int,
) -> int:
    """Keep the `most` heaviest links of a run, and the one to the cluster itself; return its end."""
    start, end = run
    lightness = np.empty(end - start)
    for position in range(start, end):
        column = indices[position]
        lightness[position - start] = -data[position] / masses[column]
        if column == own:
            lightness[position - start] = -np.inf
            most += 1
    kept = np.sort(np.argsort(lightness, kind="mergesort")[:most])
    for number in range(len(kept)):
        position = start + kept[number]
        indices[start + number], data[start + number] = indices[position], data[position]
    return start + len(kept)


@compile_loop
def members_loop(labels: IndexArray, ends: IndexArray, members: IndexArray) -> None:
    """Fill the rows, (m,), of each label >= 0 in order, and their ends, (k + 1,), from zeros."""
    for label in labels:
        if label >= 0:
            ends[label + 1] += 1
    for label in range(1, len(ends)):
        ends[label] += ends[label - 1]
    starts = ends.copy()
    for row in range(len(labels)):
        if labels[row] >= 0:
            members[starts[labels[row]]] = row
            starts[labels[row]] += 1


@compile_loop
def merge_partners_loop(
    graph: Links,
    totals: tuple[Float64Array, Float64Array, Float64Array],
    price: float,
    first: np.uint64,
    within: IndexArray,
    found: tuple[Int64Array, Float64Array],
) -> None:
    """Fill partners, from -1, and gains, from -inf, (k,) each; `first` starts the order of ties."""
    indptr, indices, data = graph
    kept, masses, rates = totals
    partners, gains = found
    k = np.uint64(len(kept))
    for i in range(len(kept)):
        best, partner, order = -np.inf, -1, np.uint64(0)
        for position in range(indptr[i], indptr[i + 1]):
            j = indices[position]
            if i == j or (within.size and within[i] != within[j]):
                continue
            together = (kept[i] + kept[j] + 2 * data[position]) / (masses[i] + masses[j])
            gain = price + together - (rates[i] + rates[j])
            if gain >= best:
                pair = np.uint64(min(i, j)) * k + np.uint64(max(i, j))
                hashed = mix(pair + first) >> np.uint64(11)
                if gain > best or hashed > order:
                    best, partner, order = gain, j, hashed
        partners[i], gains[i] = partner, best


@compile_loop
def link_digests_loop(graph: Links, start: int, digests: np.ndarray) -> None:
    """Add the digests, (2,), of all links of a run of nodes, and of the links turned round."""
    indptr, indices, data = graph
    weights = data.view(np.uint64)
    for i in range(len(indptr) - 1):
        node = np.uint64(start + i)
        mixed = mix(node)
        for position in range(indptr[i], indptr[i + 1]):
            if data[position] != 0:
                other = np.uint64(indices[position])
                digests[0] += mix(mix(mixed + other) ^ weights[position])
                digests[1] += mix(mix(mix(other) + node) ^ weights[position])
