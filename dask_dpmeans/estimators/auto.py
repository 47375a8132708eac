"""The part of estimators whose penalties may be chosen from the rows."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.loop import Algorithm, Progress
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, ClustersMixin, RowFit
from dask_dpmeans.estimators.description import radius_or_price
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.auto_penalty import AutoPenalty
from dask_dpmeans.methods.dpmeans.choice import AUTO, Auto, Choice, ChosenFit
from dask_dpmeans.methods.dpmeans.stability import unstable_clusters

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

LEAST_STABLE = 3
"""Clusters that `show` names for their low stability."""
UNSTABLE = (
    "Halves of the {} divide them in other ways: do not rely on these clusters, and compare them "
    "with the next best number"
)
"""What clusters that are not stable mean, and what to do; `{}` is what halves are made of."""


class AutoMixin(ClustersMixin):
    """The part of estimators, of rows or of nodes, whose penalties are numbers or all "auto"."""

    _auto_type: ClassVar[type[Auto]]
    """What chooses the penalties."""
    _allowed: ClassVar[str] = "> 0"
    """Numbers that penalties can be."""
    _unchosen: ClassVar[float] = 1.0
    """The penalties of the algorithm before some are chosen."""
    choice_: Choice | None
    cluster_stability_: Float64Array | None

    @property
    def _choice_type(self) -> type[Choice]:
        """The type of `choice_`."""
        return Choice

    @property
    def _chooses(self) -> bool:
        """Whether the penalties are chosen from the rows."""
        given = {name: getattr(self, name) for name in self._auto_type.penalties}
        words = {name: value for name, value in given.items() if isinstance(value, str)}
        for name, value in words.items():
            if value != AUTO:
                raise InputError(
                    f"{name} must be a number {self._allowed} or {AUTO!r}, got {value!r}"
                )
        if words and len(words) < len(given):
            names = " and ".join(given)
            shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
            raise InputError(f"{names} must be numbers, or both {AUTO!r}, got {shown}")
        return bool(words)

    @property
    def _numbers(self) -> dict[str, Any]:
        """The penalties as numbers, by name: those given or chosen, or any before a fit."""
        if self._chooses:
            names = self._auto_type.penalties
            return {name: getattr(self, f"{name}_", self._unchosen) for name in names}
        return {name: getattr(self, name) for name in self._auto_type.penalties}

    def _auto(self) -> Auto | None:
        if not self._chooses:
            return None
        made: Callable[[Any], Auto] = self._auto_type
        return made(self.method())

    def _set_choice(
        self, parameters: Mapping[str, Any], choice: Choice | None, stability: Float64Array | None
    ) -> None:
        """Set the fitted attributes; the penalties are among the parameters."""
        for name in self._auto_type.penalties:
            setattr(self, f"{name}_", parameters[name])
        self.choice_, self.cluster_stability_ = choice, stability

    def _note_choice(
        self, method: Algorithm[Any], source: Source, state: Any, chosen: ChosenFit | None
    ) -> None:
        """Set the fitted attributes of a choice; None if the penalties were given."""
        if chosen is None:
            self._set_choice(vars(method), None, None)
            return
        stability = chosen.cluster_stability(source, state)
        choice = chosen.choice_after(state)
        self._set_choice(choice.penalties, choice, stability)
        self.n_passes_ += chosen.passes

    def _describe_choice(self, flags: str = "") -> dict[str, str]:
        """Return the lines of `show` about a choice; `flags` follow the penalty in a command."""
        choice = getattr(self, "choice_", None)
        if choice is None:
            return {}
        lines = {"choice": choice.explain(self.n_clusters_)} | self._next_best(choice, flags)
        return lines | _least_stable(self.cluster_stability_, choice.halved)

    def _next_best(self, choice: Choice, flags: str) -> dict[str, str]:
        """Return the line of `show` about the next alternative, if there is one."""
        second = choice.next_best(self.n_clusters_)
        if second is None:
            return {}
        given = [
            f"--{name.replace('_', '-')} {value:.6g}" for name, value in second.penalties.items()
        ]
        count = format_count(second.n_clusters, "cluster")
        figures = f"score {second.score:.2f}"
        if choice.n_clusters > 1:  # one cluster is not chosen by its score
            figures += f", {choice.chosen.score:.2f} for the chosen number"
        if second.stability is not None:
            figures += f", stability {second.stability:z.2f}"
        return {"next best": f"{count} with {' '.join(given)}{flags} ({figures})"}

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        stored, choice = result.manifest.choice, None
        if stored is not None:
            choice = self._choice_type.from_json(stored)
        stability = result.arrays.get("cluster_stability")
        self._set_choice(result.manifest.parameters, choice, stability)


class AutoPriceMixin(AutoMixin, CentersMixin):
    """The part of estimators of rows whose penalties are numbers or all "auto", which is a price."""

    search: bool

    @property
    def _searches(self) -> bool:
        """Whether penalties are prices of a search."""
        return checks.switch("search", self.search) or self._chooses

    def _note(self, given: RowFit, progress: Progress[Any]) -> None:
        super()._note(given, progress)
        self._note_choice(given.method, given.source, progress.state, given.chosen)


class AutoPenaltyMixin(AutoPriceMixin):
    """The part of estimators of rows whose one penalty is a number or "auto"."""

    _auto_type = AutoPenalty
    penalty: float | str
    penalty_: float

    @property
    def _number(self) -> Any:
        """The penalty as a number: the chosen one, or any before a fit."""
        return self._numbers["penalty"]

    def _describe_penalty(self, metric: str = "euclidean") -> dict[str, Any]:
        """Return the fields `radius`, `settings` and `json` of a `Description`."""
        choice = getattr(self, "choice_", None)
        if self._chooses and choice is None:
            return {"settings": {"penalty": f"{AUTO}, a price"}}
        radius, read = radius_or_price(self._number, search=self._searches, metric=metric)
        if choice is None:
            return {"radius": radius, "settings": {"penalty": read}}
        settings = {"penalty": f"{read}, chosen from the rows"} | self._describe_choice(" --search")
        return {"settings": settings, "json": {"choice": choice.as_json()}}


def _least_stable(stability: Float64Array | None, halved: str) -> dict[str, str]:
    """Return the lines of `show` about the stability of the clusters; `halved` is as in `Choice`."""
    if stability is None:
        return {}
    lowest = np.argsort(stability, kind="stable")[:LEAST_STABLE]
    named = ", ".join(f"{each} ({stability[each]:.2f})" for each in lowest)
    lines = {"stability": f"mean {stability.mean():.2f}; least stable: {named}"}
    if unstable := unstable_clusters(stability):
        lines["caution"] = f"{unstable}. {UNSTABLE.format(halved)}"
    return lines
