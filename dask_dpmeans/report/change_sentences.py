"""Changes of clusters from one run to another, in words."""

from dataclasses import dataclass

from dask_dpmeans.checks import format_count, format_share
from dask_dpmeans.figures.data import Change, cluster_name
from dask_dpmeans.figures.data.labelings import NOISE
from dask_dpmeans.report.sentences import join_words

MOST_SENTENCES, MOST_NAMES = 8, 8
"""Changes that a text names, and clusters that a list names."""
VERBS = {
    "stayed": "stayed",
    "moved": "moved in part",
    "split": "split",
    "merged": "merged",
    "regrouped": "regrouped",
    "scattered": "scattered",
}
"""What a summary says of the clusters before a change."""


@dataclass(frozen=True)
class Named:
    """The clusters of one run."""

    sizes: dict[int, int]
    """Rows of each."""
    n_rows: int

    def name(self, cluster: int) -> str:
        """Return the number of a cluster with its share of the rows."""
        return f"{cluster_name(cluster)} ({format_share(self.sizes[cluster] / self.n_rows)})"

    def list(self, clusters: list[int]) -> str:
        """Return the names of some clusters, as far as there is room."""
        return join_words(_shortened([self.name(each) for each in clusters]))


def _shortened(names: list[str]) -> list[str]:
    """Return as many names as there is room for, and the number of the others."""
    rest = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], f"{rest:,} more"] if rest > 0 else names


def summary(changes: list[Change], first: str, second: str) -> str:
    """Return a sentence about all changes from the run `first` to the run `second`.

    Noise is not counted as a cluster.
    """
    numbers = dict.fromkeys(VERBS, 0)
    gathered = 0
    for change in changes:
        if change.kind == "gathered":
            gathered += 1
        else:
            numbers[change.kind] += sum(each != NOISE for each in change.before)
    total = format_count(sum(numbers.values()), "cluster")
    if all(change.kind == "stayed" and change.jaccard == 1 for change in changes):
        if len(changes) == 1:
            return f"The only cluster of {first} is the same in {second}."
        return f"All {total} of {first} are the same in {second}."
    parts = [f"{number:,} {VERBS[kind]}" for kind, number in numbers.items() if number]
    text, also = join_words(parts), ""
    if gathered:
        also = f"; {gathered:,} of {second} came from several without most of any"
    if len(parts) == 1:
        text = text.partition(" ")[2]
        return f"{'All ' * (sum(numbers.values()) > 1)}{total} of {first} {text}{also}."
    return f"Of the {total} of {first}, {text}{also}."


def sentences(changes: list[Change], one: Named, other: Named, first: str, second: str) -> str:
    """Return a sentence about each large change, and one about the clusters that stayed."""
    changed = [change for change in changes if change.kind != "stayed"]
    found = [_sentence(change, one, other, first, second) for change in changed[:MOST_SENTENCES]]
    rest = len(changed) - MOST_SENTENCES
    if rest > 0:
        found.append(f"{format_count(rest, 'smaller change')} are in the table below.")
    stayed = [change for change in changes if change.kind == "stayed"]
    if stayed:
        names = [
            f"{cluster_name(change.before[0])} as {cluster_name(change.after[0])}"
            for change in stayed
        ]
        listed = ", ".join(_shortened(names))
        found.append(f"{format_count(len(stayed), 'cluster')} stayed: {listed}.")
    return " ".join(found)


def _sentence(change: Change, one: Named, other: Named, first: str, second: str) -> str:
    before, after = one.list(change.before), other.list(change.after)
    some = "s" * (len(change.before) > 1)
    if change.kind == "moved":
        common = format_share(change.jaccard)
        return (
            f"Cluster {before} of {first} is {after} of {second} after rows moved: "
            f"{common} of the rows of either are in both."
        )
    if change.kind == "scattered":
        return f"Cluster {before} of {first} was scattered: no cluster of {second} has most of it."
    if change.kind == "gathered":
        several = f"several clusters of {first}, without most of any"
        return f"Cluster {after} of {second} came from {several}."
    return f"Cluster{some} {before} of {first} became {after} of {second}."
