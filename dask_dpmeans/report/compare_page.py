"""The page that compares runs over the same rows."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dask_dpmeans import errors
from dask_dpmeans.api.description import versions
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.checks import describe_value, format_count, format_share
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.figures import data, plot
from dask_dpmeans.figures.data import Change, Flows, cluster_name, letters
from dask_dpmeans.report import sentences
from dask_dpmeans.report.page import Page, Picture, Section, Table
from dask_dpmeans.report.sentences import join_words
from dask_dpmeans.selection.metrics import agreement_of
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.manifest import InputDescription

MOST_RUNS = 8
"""More runs side by side have no room in the picture."""
MOST_LINES = 100
"""Lines of a table of flows, and of a table of changes."""
OUT = "compared.html"
"""Output of the call and the command of a page."""
SETTINGS = ("penalty", "n_clusters", "init", "search", "max_iter", "tol", "max_clusters")
"""Parameters that change how low the objective of DP-means is, and the price, but not the rest of
the objective."""
FITTED = ("columns", "scaled", "weighted")
"""Fields of the input that the objective depends on."""
FLOWS = (
    "Boxes are clusters, as high as their share of the rows. Ribbons are the rows that two clusters "
    "have in common, in the color of the cluster of A. Small clusters share one box, and small "
    "flows are not drawn, as named in the picture."
)
MEASURES = (
    "Each measure is 1 for the same clusters. The adjusted Rand index (Hubert & Arabie 1985) is "
    "about 0 for independent labels."
)
CHANGES = (
    "A cluster of one run and one of the other belong together if one of them has more than half "
    "of the rows of the other. Jaccard: rows in both, divided by rows in either; from .95 on the "
    "cluster stayed."
)


@dataclass(frozen=True)
class Compared:
    """One of the runs of a page."""

    letter: str
    run: LoadedRun

    @property
    def words(self) -> Description:
        """How texts speak of its estimator."""
        return self.run.model.description()

    @property
    def input(self) -> InputDescription:
        """The rows that it is of."""
        return self.run.result.manifest.input

    @property
    def path(self) -> str:
        """Its path or URL, without credentials."""
        return self.run.result.store.shown

    @property
    def has_objective(self) -> bool:
        """Whether it has the objective of DP-means, of rows that a fit has not learned."""
        words = self.words
        usual = words.objective_parts == Description.objective_parts
        return usual and not words.learned_rows

    @property
    def penalty(self) -> float:
        """The price of a cluster, if it has that objective."""
        return float(self.run.result.manifest.parameters["penalty"])

    def at(self, penalty: float) -> float:
        """Return its objective at a penalty."""
        model = self.run.model
        return float(model.inertia_) + penalty * int(model.n_clusters_)


def page(stores: Sequence[AnyPlace | LoadedRun]) -> Page:
    """Return the contents of the page that compares finished runs over the same rows."""
    opened = [each if isinstance(each, LoadedRun) else open_run(each) for each in stores]
    runs = [Compared(*each) for each in zip(letters(len(opened)), opened, strict=True)]
    unknown = check_same_rows(runs)
    found = data.flows([each.run.result.open_rows("labels") for each in runs])
    neighbors = {(one, one + 1): data.changes(found, one, one + 1) for one in range(len(runs) - 1)}
    paths = [each.path.encode(errors="backslashreplace").decode() for each in runs]
    names = [path.rstrip("/").rpartition("/")[2] for path in paths]
    titles = [f"{each.letter}: {name}" for each, name in zip(runs, names, strict=True)]
    flows = [_flow_table(runs, found, one) for one in range(len(runs) - 1)]
    return Page(
        store=", ".join(f"{each.letter}: {each.path}" for each in runs),
        headline=_headline(runs, found.n_rows),
        warnings=[*unknown, *_unfinished(runs)],
        first=[_section(runs, found, *each) for each in neighbors.items()],
        maps=[Picture.of("Flows", FLOWS, lambda: plot.flows(found, titles))],
        tables=[_side_by_side(runs), _agreement(runs, found), *flows],
        call=f"from dask_dpmeans.report import report\n\nreport({paths}, {OUT!r})",
        command=shlex.join(["dask-dpmeans", "report", *paths, OUT]),
        versions=versions(),
        sentence=_sentence(runs, found, neighbors),
    )


def checked_number(stores: Sequence[AnyPlace | LoadedRun]) -> Sequence[AnyPlace | LoadedRun]:
    """Return the stores of a comparison, if there are neither too few nor too many."""
    if not 2 <= len(stores) <= MOST_RUNS:
        raise InputError(
            f"store must be one store, or from 2 to {MOST_RUNS} runs to compare, got {len(stores)}"
        )
    return stores


# The same rows


def check_same_rows(runs: list[Compared]) -> list[str]:
    """Refuse runs that are known to be of other rows; return a warning if it is not known.

    Raises
    ------
    InputError
        Numbers of rows differ, or fingerprints of inputs that were read in the same way.
    """
    unknown = []
    for one, other in pairwise(runs):
        first, second = one.input, other.input
        if first.shape[0] != second.shape[0]:
            raise InputError(_differ(one, other, "{:,} rows", [first.shape[0], second.shape[0]]))
        if first.fingerprint == second.fingerprint:
            continue
        differing = _differing_readings(one, other)
        if not differing:
            prints = [each.fingerprint[:12] for each in (first, second)]
            raise InputError(_differ(one, other, "rows of fingerprint {}", prints))
        unknown.append(
            f"It is not known whether the rows of {one.letter} and {other.letter} are the same, in "
            f"the same order: the fits read them differently ({', '.join(differing)})."
        )
    return unknown


def _differ(one: Compared, other: Compared, what: str, values: list[Any]) -> str:
    held = " and ".join(
        f"{each.path} is of {what.format(value)}"
        for each, value in zip((one, other), values, strict=True)
    )
    return (
        f"{held}: only runs over the same rows, in the same order, can be compared. Fit both to "
        "the same input, or write a report of each"
    )


def _differing_readings(one: Compared, other: Compared) -> list[str]:
    """Return what makes the fingerprints of the same rows differ."""
    first, second = vars(one.input), vars(other.input)
    pairs = {name: (first[name], second[name]) for name in first.keys() - {"fingerprint", "shape"}}
    pairs["stored columns"] = first["shape"][1], second["shape"][1]
    pairs["metric"] = one.words.metric, other.words.metric
    pairs["item"] = one.words.row, other.words.row
    pairs["learned features"] = one.words.learned_rows, other.words.learned_rows
    return sorted(name.replace("_", " ") for name, (a, b) in pairs.items() if a != b)


# Words


def _headline(runs: list[Compared], n_rows: int) -> str:
    counts = join_words([f"{each.run.model.n_clusters_:,}" for each in runs])
    rows = format_count(n_rows, runs[0].words.row)
    return f"{len(runs)} runs compared: {counts} clusters of {rows}"


def _sentence(
    runs: list[Compared], found: Flows, neighbors: dict[tuple[int, int], list[Change]]
) -> str:
    """Return the first sentences of a page: agreement, and what became of the clusters."""
    told: list[str] = []
    for (one, other), changes in neighbors.items():
        first, second = runs[one].letter, runs[other].letter
        index = found.pairs[one, other].adjusted_rand
        agreed = f"{first} and {second} agree with an adjusted Rand index of {index:z.2f}"
        meaning = "" if told else " (1: the same clusters, 0: as by chance)"
        changed = sentences.changes_summary(changes, first, second)
        told.append(f"{agreed}{meaning}. {changed}")
    return " ".join([*told, *_lower(runs)])


def _unfinished(runs: list[Compared]) -> list[str]:
    """Return a warning about each run that has not converged."""
    return [
        f"{each.letter}: {errors.NOT_CONVERGED.format(each.run.model.max_iter)}."
        for each in runs
        if each.words.has_end and not each.run.result.manifest.converged
    ]


def _section(
    runs: list[Compared], found: Flows, both: tuple[int, int], changes: list[Change]
) -> Section:
    """Return the section about what became of the clusters of a run in the next one."""
    first, second = (runs[each].letter for each in both)
    one, other = (sentences.Named(found.sizes[each], found.n_rows) for each in both)
    text = sentences.change_sentences(changes, one, other, first, second)
    shown = changes[:MOST_LINES]
    lines = [
        [
            change.kind,
            one.list(change.before),
            other.list(change.after),
            format_share(change.rows / found.n_rows),
            f"{change.jaccard:.2f}",
        ]
        for change in shown
    ]
    caption = CHANGES
    if len(changes) > len(shown):
        caption += f" The {len(changes) - len(shown):,} changes of fewest rows are left out."
    columns = ["change", f"clusters of {first}", f"clusters of {second}", "of all rows", "Jaccard"]
    title = f"What became of the clusters of {first} in {second}"
    return Section(title, text, Table("Changes", caption, columns, lines), "")


# Tables


def _side_by_side(runs: list[Compared]) -> Table:
    lines = {
        "method": [type(each.run.model).__name__ for each in runs],
        "clusters, k": [f"{each.run.model.n_clusters_:,}" for each in runs],
        "penalty": [each.words.settings["penalty"] if each.has_objective else "" for each in runs],
        "inertia": [_inertia(each) for each in runs],
        "objective, J": [f"{each.run.model.objective_:.9g}" for each in runs],
    }
    for one in runs:
        if one.has_objective:
            name = f"J at the penalty of {one.letter}"
            lines[name] = [
                "" if _difference(one, each) else f"{each.at(one.penalty):.9g}" for each in runs
            ]
    lines |= _differing_parameters(runs, lines)
    return Table(
        "The runs side by side",
        " ".join(["J = inertia + penalty x clusters.", *_lower(runs), *_incomparable(runs)]),
        ["", *(each.letter for each in runs)],
        [[name, *values] for name, values in lines.items()],
    )


def _inertia(each: Compared) -> str:
    name, value = each.words.inertia_name, f"{each.run.model.inertia_:.9g}"
    return value if name == Description.inertia_name else f"{value} ({name})"


def _difference(one: Compared, other: Compared) -> str:
    """Return why the objectives of two runs cannot be compared; empty if they can."""
    for each in (one, other):
        if not each.has_objective:
            parts = each.words.objective_parts.replace(" {inertia:.9g}", "")
            learned = ", of features that it has learned" if each.words.learned_rows else ""
            return f"the objective of {each.letter} is {parts}{learned}"
    asked = [_definition(each) for each in (one, other)]
    for name in asked[0] | asked[1]:
        first, second = (each.get(name) for each in asked)
        if first != second:
            values = f"{describe_value(first)} and {describe_value(second)}"
            return f"{name} differs: {values}"
    return ""


def _definition(each: Compared) -> dict[str, Any]:
    """Return all that defines an objective but the penalty."""
    manifest = each.run.result.manifest
    asked: dict[str, Any] = {"method": manifest.estimator.name}
    asked |= {name: getattr(manifest.input, name) for name in FITTED}
    parameters = manifest.estimator.parameters.items()
    return asked | {name: value for name, value in parameters if name not in SETTINGS}


def _lower(runs: list[Compared]) -> list[str]:
    """Return sentences about the lowest objective at each penalty."""
    found, own_is_lowest = [], 0
    for one in runs:
        alike = [each for each in runs if not _difference(one, each)]
        if len(alike) < 2:  # a run of another objective has none
            continue
        values, own = [each.at(one.penalty) for each in alike], one.at(one.penalty)
        if min(values) == max(values):
            continue
        if own == min(values):
            own_is_lowest += 1
            found.append(f"At the penalty of {one.letter}, its J is the lowest.")
        else:
            best, share = alike[values.index(min(values))], format_share(1 - min(values) / own)
            found.append(f"At the penalty of {one.letter}, J of {best.letter} is {share} lower.")
    if own_is_lowest == len(runs):
        return ["At its own penalty, each run has the lowest J."]
    return found


def _incomparable(runs: list[Compared]) -> list[str]:
    """Return sentences about the runs whose objectives cannot be compared with the first one's."""
    found = []
    for other in runs[1:]:
        reason = _difference(runs[0], other)
        if reason:
            both = f"{runs[0].letter} and {other.letter}"
            found.append(f"J of {both} at an equal penalty makes no sense: {reason}.")
    return found


def _differing_parameters(runs: list[Compared], known: Collection[str]) -> dict[str, list[str]]:
    """Return other parameters and readings of the input that differ, by name."""
    asked: list[dict[str, Any]] = []
    for each in runs:
        manifest = each.run.result.manifest
        reading = {name: getattr(manifest.input, name) for name in FITTED}
        parameters = dict(manifest.estimator.parameters) | {"seed": manifest.random_state}
        asked.append(reading | parameters)
    names = dict.fromkeys(name for each in asked for name in each if name not in known)
    lines = {
        name: [describe_value(each[name], 40) if name in each else "" for each in asked]
        for name in names
    }
    return {name: values for name, values in lines.items() if len(set(values)) > 1}


def _agreement(runs: list[Compared], found: Flows) -> Table:
    lines = []
    for (one, other), pairs in found.pairs.items():
        measures = agreement_of(pairs)
        values = measures.adjusted_rand, measures.normalized_mutual_information
        both = f"{runs[one].letter} and {runs[other].letter}"
        lines.append([both, *(f"{value:.4f}" for value in values)])
    weighted = any(each.input.weighted for each in runs)
    caption = MEASURES
    if weighted:
        caption += " Rows count once each, whatever their weights."
    if any(-1 in sizes for sizes in found.sizes):
        caption += " Rows without a cluster are a class of their own."
    columns = ["runs", "adjusted Rand index", "normalized mutual information"]
    return Table("Agreement", caption, columns, lines)


def _flow_table(runs: list[Compared], found: Flows, one: int) -> Table:
    pairs, sizes = found.pairs[one, one + 1], found.sizes
    flows = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.counts.tolist(), strict=True)
    largest = sorted(flows, key=lambda flow: -flow[2])
    lines = [
        [
            cluster_name(first),
            cluster_name(second),
            f"{rows:,}",
            f"{rows / found.n_rows:.2%}",
            f"{rows / sizes[one][first]:.2%}",
            f"{rows / sizes[one + 1][second]:.2%}",
        ]
        for first, second, rows in largest[:MOST_LINES]
    ]
    left, right = runs[one].letter, runs[one + 1].letter
    caption = "The largest flows first."
    rest = largest[MOST_LINES:]
    if rest:
        share = sum(rows for *_, rows in rest) / found.n_rows
        caption += f" {len(rest):,} smaller flows, {share:.2%} of the rows, are left out."
    columns = [f"cluster of {left}", f"cluster of {right}", "rows", "share of all"]
    columns += [f"share of the cluster of {left}", f"share of the cluster of {right}"]
    return Table(f"Flows from {left} to {right}", caption, columns, lines)
