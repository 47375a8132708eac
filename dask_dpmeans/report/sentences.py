"""Sentences about the clusters of a run."""

from dask_dpmeans.checks import format_count, format_share
from dask_dpmeans.estimators.bounded import share_above
from dask_dpmeans.figures.data import Model, Overview
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
        agree = "agree" if chosen.stability >= 0.9 else "agree in part"
        sentence += (
            f", and two halves of the {choice.halved} {agree} on it (stability "
            f"{chosen.stability:.2f})"
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
