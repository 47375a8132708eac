"""Methods that are told k, or fitted at a price that gives k, on rows in several forms; and tables of their agreement.

A task has the same rows in one form or more, as methods take them: complete and with holes, as codes and one-hot.
Tasks of one name are repeats, which a table averages.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import process_time
from typing import Any

import click
import numpy as np
from labelled_sets import Labels, Rows
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits
from unknown_k import fraction, table

from dask_dpmeans import DPMeans

STARTS = 10
"""Of KMeans."""
HIGHEST = 1e30
"""A price at which there is one cluster."""
MOST_FITS = 40


@dataclass(frozen=True)
class Task:
    """Rows and their classes."""

    name: str
    forms: Mapping[str, Any]
    """The rows, by the name of a form."""
    classes: Labels
    """(n,)."""

    @property
    def k(self) -> int:
        """Classes."""
        return len(np.unique(self.classes))


Method = Callable[[Task], Labels]
"""Raises KeyError where a task has not the form that it takes."""


@dataclass(frozen=True)
class Outcome:
    """What a method makes of a task."""

    task: str
    method: str
    n_clusters: int
    """Of labels that are not negative."""
    rand: float
    """The adjusted Rand index."""
    mutual: float
    """Arithmetic NMI."""
    seconds: float
    """Of the processor."""


def at_k(model: Callable[[float], Any], rows: Any, k: int) -> Any:
    """Fit a model at prices until it has k clusters; if k jumps over that, with the number next below or above.

    Between a price with fewer clusters and one with more, the next price is where both cost the same.
    """
    fits = {1: model(HIGHEST).fit(rows)}
    price = fits[1].inertia_ / (2 * k)
    for _ in range(MOST_FITS):
        if k in fits:
            break
        fewer = max(each for each in fits if each < k)
        more = min((each for each in fits if each > k), default=None)
        if more is not None:
            price = (fits[fewer].inertia_ - fits[more].inertia_) / (more - fewer)
        found = model(price).fit(rows)
        known = fits.get(found.n_clusters_)
        if more is not None and known is not None and found.inertia_ >= known.inertia_:
            break
        fits[found.n_clusters_] = found
        price /= 3
    return fits[min(fits, key=lambda each: (abs(each - k), each))]


def ours(form: str, **parameters: Any) -> Method:
    """The search at the price that gives k."""

    def labels(task: Task) -> Labels:
        def model(price: float) -> DPMeans:
            return DPMeans(price, search=True, random_state=0, **parameters)

        found: Labels = at_k(model, task.forms[form], task.k).labels_
        return found

    return labels


def told_means(rows: Rows, k: int) -> Labels:
    """KMeans, the best of ten starts."""
    labels: Labels = KMeans(k, n_init=STARTS, random_state=0).fit_predict(rows)
    return labels


def outcomes(tasks: Iterable[Task], methods: Mapping[str, Method]) -> Iterator[Outcome]:
    """Yield what each method makes of each task whose form it takes; one thread."""
    for task in tasks:
        for name, method in methods.items():
            started = process_time()
            try:
                with warnings.catch_warnings(), threadpool_limits(1):
                    warnings.simplefilter("ignore")
                    labels = method(task)
            except KeyError:
                continue
            yield outcome(task, name, labels, process_time() - started)


def outcome(task: Task, name: str, labels: Labels, seconds: float) -> Outcome:
    """Compare labels with the classes; -1 is one more label."""
    found = Outcome(
        task.name,
        name,
        len(np.unique(labels[labels >= 0])),
        float(adjusted_rand_score(task.classes, labels)),
        float(normalized_mutual_info_score(task.classes, labels)),
        seconds,
    )
    click.echo(f"{task.name}, {name}: k {found.n_clusters}, ARI {found.rand:.3f}", err=True)
    return found


def agreement(found: Sequence[Outcome], *, mutual: bool = False) -> str:
    """Return the table of mean ARI, or with NMI behind it; a line for each method, a column for each task."""
    tasks = list(dict.fromkeys(one.task for one in found))
    lines = []
    for method in dict.fromkeys(one.method for one in found):
        of_method = [one for one in found if one.method == method]
        repeats = ([one for one in of_method if one.task == task] for task in tasks)
        lines.append([method, *(cell(each, mutual) for each in repeats)])
    return table(["method", *tasks], lines)


def cell(repeats: Sequence[Outcome], mutual: bool) -> str:
    """Mean ARI of repeats, the lowest ARI of several, NMI if it is wanted, and the clusters.

    >>> cell([Outcome("a", "b", 3, 0.5, 0.25, 1.0)], mutual=True)
    '.500 (NMI .250), k 3'
    """
    if not repeats:
        return ""
    text = fraction(fmean(each.rand for each in repeats), 3)
    if len(repeats) > 1:
        text += f" (least {fraction(min(each.rand for each in repeats), 3)})"
    if mutual:
        text += f" (NMI {fraction(fmean(each.mutual for each in repeats), 3)})"
    numbers = sorted({each.n_clusters for each in repeats})
    return f"{text}, k {'-'.join(map(str, dict.fromkeys([numbers[0], numbers[-1]])))}"
