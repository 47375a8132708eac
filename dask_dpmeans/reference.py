"""The papers' loops, row by row: slow, obvious, and independent of the code that they check."""

import math
from collections.abc import Sequence
from typing import NamedTuple

Row = Sequence[float]


class Sweep(NamedTuple):
    """One iteration of Algorithm 1."""

    labels: list[int]
    """The cluster of each row, in row order, numbered in order of opening."""
    opened: list[int]
    """The rows that opened clusters, in order."""
    centers: list[list[float]]
    """The centers that the rows were assigned to, opened rows included."""
    means: list[list[float]]
    """The means of the clusters that have weight, in order: the centers of the next iteration."""


def squared_distance(row: Row, center: Row) -> float:
    """Return the sum, over the columns in order, of squared differences."""
    total = 0.0
    for value, middle in zip(row, center, strict=True):
        total += (value - middle) * (value - middle)
    return total


def nearest_center(row: Row, centers: Sequence[Row]) -> tuple[int, float]:
    """Return the lowest number among the nearest centers, and the squared distance."""
    best, least = 0, squared_distance(row, centers[0])
    for number, center in enumerate(centers):
        squared = squared_distance(row, center)
        if squared < least:
            best, least = number, squared
    return best, least


def mean_of(rows: Sequence[Row], weights: Sequence[float]) -> list[float]:
    """Return the weighted mean of rows."""
    totals = [0.0] * len(rows[0])
    for row, weight in zip(rows, weights, strict=True):
        for column, value in enumerate(row):
            totals[column] += weight * value
    return [total / sum(weights) for total in totals]


def group_mean(
    numbers: Sequence[int], rows: Sequence[Row], weights: Sequence[float]
) -> list[float]:
    """Return the weighted mean of some rows, or of the centers of some clusters."""
    return mean_of([rows[number] for number in numbers], [weights[number] for number in numbers])


def members_of(labels: Sequence[int], cluster: int) -> list[int]:
    """Return the numbers of the rows of a cluster."""
    return [number for number, label in enumerate(labels) if label == cluster]


def sweep(
    rows: Sequence[Row],
    penalty: float,
    centers: Sequence[Row],
    order: Sequence[int],
    weights: Sequence[float],
) -> Sweep:
    """Do step 3 of Algorithm 1 (Kulis & Jordan 2012) over the rows in the given order.

    A row of weight w opens a cluster iff min(1, w) times its squared distance to the nearest center
    exceeds the penalty; with unit weights this is the printed rule.
    """
    present = [list(center) for center in centers]
    labels = [-1] * len(rows)
    opened = []
    for number in order:
        label, squared = nearest_center(rows[number], present)
        if min(1.0, weights[number]) * squared > penalty:
            label = len(present)
            present.append(list(rows[number]))
            opened.append(number)
        labels[number] = label
    alive = sorted({labels[number] for number in order if weights[number] > 0})
    members = [members_of(labels, cluster) for cluster in alive]
    return Sweep(labels, opened, present, [group_mean(each, rows, weights) for each in members])


def dpmeans(
    rows: Sequence[Row],
    penalty: float,
    order: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> list[Sweep]:
    """Run Algorithm 1 from the global mean until the means repeat; return a `Sweep` for each."""
    order = range(len(rows)) if order is None else order
    weights = [1.0] * len(rows) if weights is None else weights
    centers = [mean_of(rows, weights)]
    sweeps: list[Sweep] = []
    while not sweeps or sweeps[-1].means != centers:
        centers = sweeps[-1].means if sweeps else centers
        sweeps.append(sweep(rows, penalty, centers, order, weights))
    return sweeps


def farthest_first(
    rows: Sequence[Row], k: int, first: Row, weights: Sequence[float]
) -> list[tuple[int, float]]:
    """Take k times the row farthest from `first` and all rows taken (Kulis & Jordan 2012, 6.1).

    Return its number, the lowest among equals, and its squared distance; rows without weight are
    not taken.
    """
    taken: list[tuple[int, float]] = []
    for _ in range(k):
        points = [first, *(rows[number] for number, _ in taken)]
        weighty = [number for number, weight in enumerate(weights) if weight > 0]
        squared = [nearest_center(rows[number], points)[1] for number in weighty]
        taken.append((weighty[squared.index(max(squared))], max(squared)))
    return taken


def direction(row: Row, otherwise: Row) -> list[float]:
    """Return a row divided by its length; `otherwise` if the length is 0 or mere rounding."""
    length = math.sqrt(squared_distance(row, [0.0] * len(row)))
    return [value / length for value in row] if length > 1e-12 else list(otherwise)


def spherical_sweep(
    rows: Sequence[Row],
    penalty: float,
    centers: Sequence[Row],
    order: Sequence[int],
    weights: Sequence[float],
) -> Sweep:
    """Do a pass of Algorithm 1 over rows of unit length (Dhillon & Modha 2001).

    Means are directions.  A cluster whose rows cancel keeps its center.
    """
    found = sweep(rows, penalty, centers, order, weights)
    weighty = {label for label, weight in zip(found.labels, weights, strict=True) if weight > 0}
    alive = [found.centers[label] for label in sorted(weighty)]
    return found._replace(
        means=[direction(mean, center) for mean, center in zip(found.means, alive, strict=True)]
    )


def objective(
    rows: Sequence[Row], penalty: float, found: Sweep, weights: Sequence[float] | None = None
) -> float:
    """Return the squared error of a sweep, plus the penalty for each cluster with weight."""
    weights = [1.0] * len(rows) if weights is None else weights
    error = 0.0
    for row, weight, label in zip(rows, weights, found.labels, strict=True):
        error += weight * squared_distance(row, found.centers[label])
    return error + penalty * len(found.means)


class Online(NamedTuple):
    """State of Algorithm 2 of Odashima et al. 2016."""

    centers: list[list[float]]
    """The running means of the clusters, in order of opening."""
    weights: list[float]
    """The rows that each has taken."""


def online_dp_means(rows: Sequence[Row], penalty: float, before: Online | None = None) -> Online:
    """Run Algorithm 2 of Odashima et al. 2016: each row once, in order, from the state `before`."""
    centers = [list(center) for center in before.centers] if before else []
    weights = list(before.weights) if before else []
    for row in rows:
        nearest, squared = nearest_center(row, centers) if centers else (-1, float("inf"))
        if squared > penalty:
            centers.append(list(row))
            weights.append(1.0)
        else:
            centers[nearest] = running_mean(centers[nearest], weights[nearest], row)
            weights[nearest] += 1.0
    return Online(centers, weights)


def running_mean(center: Row, weight: float, row: Row) -> list[float]:
    """Return the mean of `weight` rows with mean `center` and one more row."""
    pairs = zip(center, row, strict=True)
    return [(weight * middle + value) / (weight + 1.0) for middle, value in pairs]


class Box(NamedTuple):
    """A cluster of Algorithm 3 of Odashima et al. 2016."""

    center: list[float]
    """mu, their mean."""
    weight: float
    """w, their number; a split divides it, so that it may have a fraction."""
    low: list[float]
    """p, their least values."""
    high: list[float]
    """q, their greatest values."""


def split_dp_means(rows: Sequence[Row], penalty: float, before: Sequence[Box] = ()) -> list[Box]:
    """Run Algorithm 3 of Odashima et al. 2016: each row once, in order, from the clusters `before`.

    The comparison with the least distance so far is printed as ``>``.  That would look for the
    farthest cluster beyond the radius; the text (section 3.2) describes the nearest within it, so
    that ``<`` must be meant.
    """
    boxes = list(before)
    for row in rows:
        best, least = -1, penalty
        for number, box in enumerate(boxes):
            if is_outside(row, box) and should_split(with_row(box, row), penalty):
                continue
            if squared_distance(row, box.center) < least:
                best, least = number, squared_distance(row, box.center)
        if best < 0:
            boxes.append(Box(list(row), 1.0, list(row), list(row)))
            continue
        boxes[best] = with_row(boxes[best], row)
        if should_split(boxes[best], penalty):
            boxes[best], right = halves(boxes[best])
            boxes.append(right)
    return boxes


def is_outside(row: Row, box: Box) -> bool:
    """Return whether a row lies outside the box of a cluster."""
    ranges = zip(row, box.low, box.high, strict=True)
    return any(not low <= value <= high for value, low, high in ranges)


def with_row(box: Box, row: Row) -> Box:
    """Return a cluster with one more row (eq. 5)."""
    low = [min(least, value) for least, value in zip(box.low, row, strict=True)]
    high = [max(greatest, value) for greatest, value in zip(box.high, row, strict=True)]
    return Box(running_mean(box.center, box.weight, row), box.weight + 1.0, low, high)


def ranges(box: Box) -> list[float]:
    """Return sigma, the range of a cluster in each column."""
    return [high - low for low, high in zip(box.low, box.high, strict=True)]


def should_split(box: Box, penalty: float) -> bool:
    """Return whether w > 16 penalty / sigma_j^2 in any column j (eq. 4): two halves cost less."""
    return any(box.weight * (width * width) > 16.0 * penalty for width in ranges(box))


def halves(box: Box) -> tuple[Box, Box]:
    """Cut a cluster at its center, in the first of its widest columns (eq. 6)."""
    widths = ranges(box)
    j = widths.index(max(widths))
    low, high = box.low[j], box.high[j]
    middle = min(max(box.center[j], low), high)  # rounding may have moved a mean out of its box
    left = Box(
        replace_value(box.center, j, (middle + low) / 2.0),
        box.weight * ((middle - low) / widths[j]),
        box.low,
        replace_value(box.high, j, middle),
    )
    right = Box(
        replace_value(box.center, j, (middle + high) / 2.0),
        box.weight * ((high - middle) / widths[j]),
        replace_value(box.low, j, middle),
        box.high,
    )
    return left, right


def replace_value(values: Row, place: int, value: float) -> list[float]:
    """Return the values with another one at a position."""
    return [*values[:place], value, *values[place + 1 :]]


class Merged(NamedTuple):
    """Result of Algorithm 4 of Odashima et al. 2016."""

    members: list[list[int]]
    """The clusters that became one, for each that is left, in order of their first numbers."""
    centers: list[list[float]]
    """The weighted mean of each."""
    weights: list[float]
    """The weight of each."""


def merge_dp_means(centers: Sequence[Row], weights: Sequence[float], penalty: float) -> Merged:
    """Run Algorithm 4 of Odashima et al. 2016: merge the cheapest pair while that costs < 0.

    Clusters without weight, for which eq. 10 has no centroid, are left out.
    """
    groups = [[number] for number, weight in enumerate(weights) if weight > 0]
    while len(groups) > 1:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i + 1, len(groups))]
        costs = [merge_cost(groups[i], groups[j], centers, weights, penalty) for i, j in pairs]
        if not min(costs) < 0:
            break
        i, j = pairs[costs.index(min(costs))]
        groups[i] = groups[i] + groups[j]
        del groups[j]
    means = [group_mean(group, centers, weights) for group in groups]
    return Merged(groups, means, [sum(weights[number] for number in group) for group in groups])


def merge_cost(
    left: Sequence[int],
    right: Sequence[int],
    centers: Sequence[Row],
    weights: Sequence[float],
    penalty: float,
) -> float:
    """Return what merging two groups of clusters adds to the objective (eq. 10)."""
    new = group_mean([*left, *right], centers, weights)
    total = 0.0
    for group in (left, right):
        old = group_mean(group, centers, weights)
        for number in group:
            moved = squared_distance(centers[number], new) - squared_distance(centers[number], old)
            total += weights[number] * moved
    return total - penalty


class Shared(NamedTuple):
    """State of Algorithm 2 of Kulis & Jordan 2012."""

    labels: list[int]
    """z and v together: the global cluster of each row."""
    centers: list[list[float]]
    """mu, in order of opening."""
    uses: set[tuple[int, int]]
    """The local clusters: a data set, and the global cluster that it uses."""
    opened: list[int]
    """The rows that opened a global or local cluster in the last step 4, in order."""


def hdp_start(rows: Sequence[Row], groups: Sequence[int], weights: Sequence[float]) -> Shared:
    """Do steps 1 and 2: the mean of all rows, used by all data sets."""
    return Shared([0] * len(rows), [mean_of(rows, weights)], {(group, 0) for group in groups}, [])


def hdp_points(
    rows: Sequence[Row],
    groups: Sequence[int],
    local_penalty: float,
    global_penalty: float,
    before: Shared,
    order: Sequence[int],
    weights: Sequence[float],
) -> Shared:
    """Do step 4 of Algorithm 2 over the rows in the given order.

    A row of weight w bears 1 / min(1, w) of each penalty; with unit weights this is the printed
    rule.  Among equals a center that is used already wins, then the lowest number.
    """
    labels, centers = list(before.labels), [list(c) for c in before.centers]
    uses, opened = set(before.uses), []
    for number in order:
        row, group, share = rows[number], groups[number], min(1.0, weights[number])
        costs = []
        for p, center in enumerate(centers):
            used, squared = (group, p) in uses, squared_distance(row, center)
            price = 0.0 if used else local_penalty / share if share > 0 else float("inf")
            costs.append((squared + price, not used, squared, p))
        cost, unused, _, p = min(costs)
        if share > 0 and cost > (local_penalty + global_penalty) / share:
            unused, p = True, len(centers)
            centers.append(list(row))
        if share > 0 and unused:
            uses.add((group, p))
            opened.append(number)
        labels[number] = p
    return Shared(labels, centers, uses, opened)


def hdp_local_clusters(
    rows: Sequence[Row],
    groups: Sequence[int],
    global_penalty: float,
    before: Shared,
    weights: Sequence[float],
) -> Shared:
    """Do step 5: tie each local cluster with weight to the cheapest center.

    Local clusters are taken by data set and number.  One stays if no other global cluster costs less.
    """
    labels, centers = list(before.labels), [list(c) for c in before.centers]
    for group, p in sorted(before.uses):
        users = members_of(before.labels, p)
        members = [i for i in users if groups[i] == group and weights[i] > 0]
        if not members:
            continue

        def cost(center: Row, members: list[int] = members) -> float:
            return sum(weights[i] * squared_distance(rows[i], center) for i in members)

        mean, costs = group_mean(members, rows, weights), [cost(center) for center in centers]
        best = p if costs[p] <= min(costs) else costs.index(min(costs))
        if costs[best] > global_penalty + cost(mean):
            best = len(centers)
            centers.append(mean)
        for i in members:
            labels[i] = best
    triples = zip(groups, labels, weights, strict=True)
    uses = {(group, label) for group, label, weight in triples if weight > 0}
    return Shared(labels, centers, uses, before.opened)


def hdp_means(
    rows: Sequence[Row], groups: Sequence[int], before: Shared, weights: Sequence[float]
) -> Shared:
    """Do step 6: the means of the global clusters that have weight, renumbered."""
    pairs = zip(before.labels, weights, strict=True)
    alive = sorted({label for label, weight in pairs if weight > 0})
    means = [group_mean(members_of(before.labels, p), rows, weights) for p in alive]
    labels = [alive.index(label) if label in alive else 0 for label in before.labels]
    uses = {(group, alive.index(p)) for group, p in before.uses if p in alive}
    return Shared(labels, means, uses, before.opened)


def hdp_objective(
    rows: Sequence[Row],
    groups: Sequence[int],
    local_penalty: float,
    global_penalty: float,
    found: Shared,
    weights: Sequence[float],
) -> float:
    """Return eq. 2: squared error plus the prices of local and global clusters that have weight."""
    error = 0.0
    used = set()
    for row, group, weight, label in zip(rows, groups, weights, found.labels, strict=True):
        error += weight * squared_distance(row, found.centers[label])
        if weight > 0:
            used.add((group, label))
    return error + local_penalty * len(used) + global_penalty * len({p for _, p in used})


def hdp(
    rows: Sequence[Row],
    groups: Sequence[int],
    local_penalty: float,
    global_penalty: float,
    order: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> list[Shared]:
    """Run Algorithm 2 until the objective falls no more; return the end of each iteration."""
    order = range(len(rows)) if order is None else order
    weights = [1.0] * len(rows) if weights is None else weights
    found = [hdp_start(rows, groups, weights)]
    objectives: list[float] = []
    while len(objectives) < 2 or objectives[-1] < objectives[-2]:
        points = hdp_points(rows, groups, local_penalty, global_penalty, found[-1], order, weights)
        moved = hdp_local_clusters(rows, groups, global_penalty, points, weights)
        found.append(hdp_means(rows, groups, moved, weights))
        prices = local_penalty, global_penalty
        objectives.append(hdp_objective(rows, groups, *prices, found[-1], weights))
    return found


def cut_of(graph: Sequence[Row], labels: Sequence[int], normalized: bool) -> float:
    """Return the normalized or ratio cut of a graph, (n, n) (Kulis & Jordan 2012, section 5.2).

    The graph has the weights of links.  Nodes of a label below 0 belong to no cluster.
    """
    total = 0.0
    for cluster in sorted({label for label in labels if label >= 0}):
        members = members_of(labels, cluster)
        others = [node for node in range(len(graph)) if node not in members]
        leaving = sum(graph[node][other] for node in members for other in others)
        degree = sum(sum(graph[node]) for node in members)
        total += leaving / (degree if normalized else len(members))
    return total


def graph_kernel(
    graph: Sequence[Row], sigma: float, normalized: bool
) -> tuple[list[list[float]], list[float]]:
    """Return K and the diagonal of W whose kernel k-means is the cut (theorem 5.3)."""
    n, degrees = len(graph), [sum(row) for row in graph]
    masses = degrees if normalized else [1.0] * n
    kernel = []
    for i in range(n):
        kernel.append([graph[i][j] / (masses[i] * masses[j]) for j in range(n)])
        kernel[i][i] += sigma / masses[i] - (0.0 if normalized else degrees[i])
    return kernel, masses


def graph_score(
    graph: Sequence[Row],
    i: int,
    members: Sequence[int],
    masses: Sequence[float],
    sigma: float,
    normalized: bool,
) -> float:
    """Return mass * distance^2 of node i to a cluster in the kernel's space, up to a constant.

    `masses` are degrees for the normalized cut and 1 for the ratio cut.
    """
    size = sum(masses[j] for j in members)
    within = sum(graph[j][m] for j in members for m in members)
    to_node = sum(graph[i][j] for j in members)
    if not normalized:
        within -= sum(sum(graph[j]) for j in members)
    if i in members:
        to_node += sigma * masses[i] - (0.0 if normalized else sum(graph[i]))
    return masses[i] * ((sigma * size + within) / (size * size)) - 2 * (to_node / size)


def graph_sweep(
    graph: Sequence[Row],
    penalty: float,
    sigma: float,
    clusters: Sequence[Sequence[int]],
    order: Sequence[int],
    normalized: bool,
) -> tuple[list[int], list[int]]:
    """Do one pass of Algorithm 1 over the nodes in the given order, from the means of clusters.

    A node opens a cluster if mass * distance^2 > lambda = sigma + price (Kulis & Jordan 2012,
    section 5.2). Return labels, -1 for nodes without links under the normalized cut, and the nodes
    that opened clusters.
    """
    degrees = [sum(row) for row in graph]
    masses = degrees if normalized else [1.0] * len(graph)
    price = 1.0 + penalty if normalized else penalty
    centers, labels, opened = [list(members) for members in clusters], [-1] * len(graph), []
    for i in order:
        if not masses[i]:
            continue
        own = (graph[i][i] - (0.0 if normalized else degrees[i])) / masses[i]
        scores = [graph_score(graph, i, members, masses, sigma, normalized) for members in centers]
        least = min(scores)
        labels[i] = scores.index(least)
        if own + least > price:
            labels[i] = len(centers)
            centers.append([i])
            opened.append(i)
    return labels, opened


class KernelSweep(NamedTuple):
    """One iteration of Algorithm 1 in the space of a kernel function."""

    labels: list[int]
    """The cluster of each row, in row order, numbered in order of opening."""
    opened: list[int]
    """The rows that opened clusters, in order."""
    squared: list[float]
    """The squared distance of each row to the center of its cluster."""
    clusters: list[list[int]]
    """The rows with weight of each cluster that has some: their means are the centers of the next
    iteration."""


def implicit_distance(
    gram: Sequence[Row], i: int, members: Sequence[int], weights: Sequence[float]
) -> float:
    """Return the squared distance of row i to the mean of some rows, from inner products."""
    size = sum(weights)
    to_row = sum(weight * gram[i][j] for j, weight in zip(members, weights, strict=True))
    within = 0.0
    for j, one in zip(members, weights, strict=True):
        for m, other in zip(members, weights, strict=True):
            within += one * other * gram[j][m]
    return gram[i][i] + (within / (size * size) - 2 * (to_row / size))


def kernel_sweep(
    gram: Sequence[Row],
    penalty: float,
    clusters: Sequence[Sequence[int]],
    order: Sequence[int],
    weights: Sequence[float],
) -> KernelSweep:
    """Do one pass of Algorithm 1 like `sweep`, from the means of clusters in the kernel's space."""
    centers = [(list(members), [weights[j] for j in members]) for members in clusters]
    labels, squared, opened = [-1] * len(gram), [0.0] * len(gram), []
    for i in order:
        distances = [implicit_distance(gram, i, *center) for center in centers]
        least = min(distances)
        label = distances.index(least)
        if min(1.0, weights[i]) * least > penalty:
            label, least = len(centers), 0.0
            centers.append(([i], [1.0]))
            opened.append(i)
        labels[i], squared[i] = label, least
    found = [[i for i in members_of(labels, c) if weights[i] > 0] for c in range(len(centers))]
    return KernelSweep(labels, opened, squared, [members for members in found if members])


def kernel_objective(found: KernelSweep, penalty: float, weights: Sequence[float]) -> float:
    """Return the squared error of a sweep, plus the penalty for each cluster with weight."""
    error = sum(weight * squared for weight, squared in zip(weights, found.squared, strict=True))
    return error + penalty * len(found.clusters)


def partition_objective(matrix: Sequence[Row], labels: Sequence[int], penalty: float) -> float:
    """Return the DP-means objective in the space of a kernel (Kulis & Jordan 2012, section 5.2).

    The matrix has the products of rows; squared distances to means follow from them.
    """
    error = 0.0
    for cluster in set(labels):
        members = members_of(labels, cluster)
        size = len(members)
        within = sum(matrix[i][j] for i in members for j in members)
        for i in members:
            error += matrix[i][i] - 2 * sum(matrix[i][j] for j in members) / size + within / size**2
    return error + penalty * len(set(labels))


def indicators(labels: Sequence[int]) -> list[list[float]]:
    """Return Y = Z (Z'Z)^-1/2, whose columns are 1 at the members of a cluster, at unit length."""
    clusters = sorted(set(labels))
    return [[(label == each) / labels.count(each) ** 0.5 for each in clusters] for label in labels]


def relaxed_trace(matrix: Sequence[Row], columns: Sequence[Row], penalty: float) -> float:
    """Return tr Y'(K - penalty I)Y for the rows of Y."""
    total = 0.0
    for c in range(len(columns[0])):
        for i, row in enumerate(columns):
            total -= penalty * row[c] ** 2
            for j, other in enumerate(columns):
                total += row[c] * matrix[i][j] * other[c]
    return total


def eigenpairs(matrix: Sequence[Row]) -> list[tuple[float, list[float]]]:
    """Return eigenvalues, descending, and unit eigenvectors of a symmetric matrix (Jacobi)."""
    n = len(matrix)
    a = [list(row) for row in matrix]
    vectors = [[float(i == j) for j in range(n)] for i in range(n)]
    size = sum(value * value for row in a for value in row)
    while sum(a[i][j] ** 2 for i in range(n) for j in range(n) if i != j) > 1e-30 * size:
        for p in range(n):
            for q in range(p + 1, n):
                if a[p][q] != 0.0:
                    _rotate(a, vectors, p, q)
    pairs = [(a[i][i], [vectors[j][i] for j in range(n)]) for i in range(n)]
    return sorted(pairs, key=lambda pair: -pair[0])


def _rotate(a: list[list[float]], vectors: list[list[float]], p: int, q: int) -> None:
    """Turn the axes p and q so that a[p][q] becomes 0."""
    theta = (a[q][q] - a[p][p]) / (2 * a[p][q])
    tangent = (1.0 if theta >= 0 else -1.0) / (abs(theta) + (theta * theta + 1) ** 0.5)
    cosine = 1 / (tangent * tangent + 1) ** 0.5
    sine = tangent * cosine
    for row in (*a, *vectors):
        row[p], row[q] = cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]
    for j in range(len(a)):
        a[p][j], a[q][j] = cosine * a[p][j] - sine * a[q][j], sine * a[p][j] + cosine * a[q][j]


def spectral_rows(matrix: Sequence[Row], penalty: float) -> list[list[float]]:
    """Return the rows of Y, whose columns are all eigenvectors above the penalty (theorem 5.2).

    Rows have unit length, or are 0 if all eigenvectors are 0 there.
    """
    kept = [vector for value, vector in eigenpairs(matrix) if value > penalty]
    rows = []
    for number in range(len(matrix)):
        row = [vector[number] for vector in kept]
        length = sum(value * value for value in row) ** 0.5
        rows.append([value / length if length > 1e-6 else 0.0 for value in row])
    return rows
