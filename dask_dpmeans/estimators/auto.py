"""The part of estimators whose penalties may be chosen from the rows."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.loop import Progress
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, RowFit
from dask_dpmeans.estimators.description import radius_or_price
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.choice import AUTO, Auto, Choice
from dask_dpmeans.methods.dpmeans.chooser import AutoPenalty

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

LEAST_STABLE = 3
"""Clusters that `show` names for their low stability."""
UNCHOSEN = 1.0
"""The penalty of the algorithm before one is chosen."""


class AutoMixin(CentersMixin):
    """The part of estimators whose penalties are all numbers or all "auto"; "auto" is a price."""

    _auto_type: ClassVar[type[Auto]]
    """What chooses the penalties."""
    _choice_type: ClassVar[type[Choice]] = Choice
    """The type of `choice_`."""
    search: bool
    choice_: Choice | None
    cluster_stability_: Float64Array | None

    @property
    def _chooses(self) -> bool:
        """Whether the penalties are chosen from the rows."""
        given = {name: getattr(self, name) for name in self._auto_type.penalties}
        words = {name: value for name, value in given.items() if isinstance(value, str)}
        for name, value in words.items():
            if value != AUTO:
                raise InputError(f"{name} must be a number > 0 or {AUTO!r}, got {value!r}")
        if words and len(words) < len(given):
            names = " and ".join(given)
            told = ", ".join(f"{name}={value!r}" for name, value in given.items())
            raise InputError(f"{names} must be numbers, or both {AUTO!r}, got {told}")
        return bool(words)

    @property
    def _searches(self) -> bool:
        """Whether penalties are prices of a search."""
        return checks.switch("search", self.search) or self._chooses

    @property
    def _numbers(self) -> dict[str, Any]:
        """The penalties as numbers, by name: those given or chosen, or any before a fit."""
        if self._chooses:
            return {name: getattr(self, f"{name}_", UNCHOSEN) for name in self._auto_type.penalties}
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

    def _note(self, given: RowFit, progress: Progress[Any]) -> None:
        super()._note(given, progress)
        chosen = given.chosen
        if chosen is None:
            self._set_choice(vars(given.method), None, None)
            return
        stability = chosen.cluster_stability(given.source, progress.state)
        self._set_choice(chosen.choice.penalties, chosen.choice, stability)
        self.n_passes_ += chosen.passes

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        told, choice = result.manifest.choice, None
        if told is not None:
            choice = self._choice_type.from_json(told)
        stability = result.arrays.get("cluster_stability")
        self._set_choice(result.manifest.parameters, choice, stability)


class AutoPenaltyMixin(AutoMixin):
    """The part of estimators whose one penalty is a number or "auto"."""

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
        settings = {"penalty": f"{read}, chosen from the rows", "choice": choice.reason}
        settings |= _next_best(choice) | _least_stable(self.cluster_stability_)
        return {"settings": settings, "json": {"choice": choice.as_json()}}


def _next_best(choice: Choice) -> dict[str, str]:
    """Return the line of `show` about the next alternative, if there is one."""
    if len(choice.alternatives) == 1:
        return {}
    second = choice.alternatives[1]
    count = format_count(second.n_clusters, "cluster")
    figures = f"score {second.score:.2f}"
    if second.stability is not None:
        figures += f", stability {second.stability:.2f}"
    return {"next best": f"{count} with --penalty {second.penalty:.6g} --search ({figures})"}


def _least_stable(stability: Float64Array | None) -> dict[str, str]:
    """Return the line of `show` about the stability of the clusters."""
    if stability is None:
        return {}
    lowest = np.argsort(stability, kind="stable")[:LEAST_STABLE]
    named = ", ".join(f"{each} ({stability[each]:.2f})" for each in lowest)
    return {"stability": f"mean {stability.mean():.2f}; least stable: {named}"}
