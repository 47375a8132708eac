"""Sentences about the clusters of a run, and about their changes from one run to another."""

from dataclasses import dataclass

from dask_dpmeans.checks import format_count, format_share
from dask_dpmeans.estimators.bounded import share_above
from dask_dpmeans.figures.data import Change, Model, Overview, cluster_name
from dask_dpmeans.figures.data.labelings import NOISE
from dask_dpmeans.methods.dpmeans.choice import Choice
from dask_dpmeans.storage.run_store import Result

FEW_DOUBTS = 0.01
"""A smaller share of rows in doubt is not worth a sentence about a pair of clusters."""


def headline(result: Result, model: Model) -> str:
    """Return the number of clusters and of rows."""
    n_rows = format_count(result.manifest.input.shape[0], model.description().row)
    return f"{format_count(model.n_clusters_, 'cluster')} in {n_rows}"


def summary(result: Result, model: Model, found: Overview | None) -> str:
    """Return what else a run found, in a few sentences."""
    sentences = []
    if model.n_clusters_ > 1:
        largest = model.cluster_weights_.max() / model.cluster_weights_.sum()
        sentences.append(f"The largest holds {format_share(largest)}")
    words = model.description()
    if "outliers" in words.facts:
        sentences.append(words.facts["outliers"])
    if words.bound:
        sentences.append(f"The objective is {share_above(model.gap_)}")
    sentences += _choice(getattr(model, "choice_", None), model.n_clusters_)
    if found is not None and found.beyond:
        far = format_share(found.beyond / result.manifest.input.shape[0])
        sentences.append(f"{far} of the rows are far from every center")
    if found is not None:
        sentences += _doubts(found)
    return "".join(f"{each}. " for each in sentences).strip()


def join_words(words: list[str]) -> str:
    """Return words with commas between, and "and" before the last."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def number(value: float) -> str:
    """Return a number with four digits, and whole numbers with separators.

    >>> number(1603.84), number(70000.0), number(0.00123456)
    ('1,604', '70,000', '0.001235')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _choice(choice: Choice | None, k: int) -> list[str]:
    """Return how sure the choice of k clusters is, if they were chosen."""
    if choice is None or choice.n_clusters != k:
        return []
    chosen = choice.chosen
    if k == 1:
        return ["No larger number of clusters stands out from rows without clusters"]
    span = f"penalties from {number(chosen.low)} to {number(chosen.high)}"
    sentence = f"{k:,} is the best number for {span}"
    if chosen.stability is not None:
        agree = "agree little" if choice.doubtful else "agree"
        sentence += (
            f", and two halves of the {choice.halved} {agree} on it (stability {choice.agreement})"
        )
    return [sentence]


def _doubts(found: Overview) -> list[str]:
    """Return how many rows lie between clusters, and between which most of them do."""
    if found.doubt is None or len(found.clusters) < 2:
        return []
    if found.doubt == 0:
        return ["No row lies between two clusters"]
    sentences = [f"{format_share(found.doubt)} of the rows lie between two clusters"]
    doubts = [
        ((near.doubt or 0.0) * each.weight, each, near)
        for each in found.clusters
        for near in each.neighbors
    ]
    weight, one, other = max(doubts, key=lambda doubt: doubt[0])
    if weight > 0 and other.doubt is not None and other.doubt >= FEW_DOUBTS:
        sentences.append(
            f"Clusters {one.cluster} and {other.cluster} are the hardest to tell apart: "
            f"{format_share(other.doubt)} of the rows of {one.cluster} could also belong to {other.cluster}"
        )
    return sentences


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


def changes_summary(changes: list[Change], first: str, second: str) -> str:
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


def change_sentences(
    changes: list[Change], one: Named, other: Named, first: str, second: str
) -> str:
    """Return a sentence about each large change, and one about the clusters that stayed."""
    changed = [change for change in changes if change.kind != "stayed"]
    found = [
        _change_sentence(change, one, other, first, second) for change in changed[:MOST_SENTENCES]
    ]
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


def _change_sentence(change: Change, one: Named, other: Named, first: str, second: str) -> str:
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
