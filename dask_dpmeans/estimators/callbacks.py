"""Callbacks of scikit-learn, which are experimental there, from release 1.9 on.

A fit is the root of a tree of tasks, with one task a step below it.  Callbacks are told when each
task begins and ends.  A callback asks to stop by returning True at the end of a step.  The fit then
ends with that step, without a warning.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from importlib.util import find_spec
from typing import Any, Self, TypeVar, cast

from sklearn.base import BaseEstimator

from dask_dpmeans.engine.loop import Progress

FOUND = find_spec("sklearn.callback") is not None

CallbackSupport: Any = object
"""Base class of estimators: `set_callbacks`, and the root of a tree of tasks."""

Fit = TypeVar("Fit", bound=Callable[..., Any])
Attributes = Mapping[str, Any]


def managed(fit: Fit) -> Fit:
    """Return a fit after which callbacks are torn down, also if it fails."""
    return fit


if FOUND:
    from sklearn import callback

    CallbackSupport, managed = callback.CallbackSupportMixin, callback.with_callbacks


def with_callbacks(fit: Fit) -> Fit:
    """Return a fit that manages callbacks, and that Python's errors do not name by its mixin.

    An estimator whose fit fails or is interrupted stays as it was before, also if a warning is an error.
    """
    fit.__qualname__ = fit.__name__
    fit_with_callbacks = managed(fit)

    @wraps(fit)
    def fit_or_stay(model: Any, *args: Any, **options: Any) -> Any:
        before = vars(model).copy()
        try:
            return fit_with_callbacks(model, *args, **options)
        except BaseException:
            model.__dict__ = before  # at once: other threads may predict
            raise

    return cast(Fit, fit_or_stay)


@dataclass(frozen=True)
class Tasks:
    """A task of a fit, as callbacks are told of it; nothing happens without callbacks."""

    model: BaseEstimator
    context: Any
    """The root of the tree, or the task of a step; None without callbacks."""
    given: Mapping[str, Any]
    """Arguments of the fit: X, y and metadata."""

    @classmethod
    def of(
        cls,
        model: BaseEstimator,
        X: object,
        y: object = None,
        sample_weight: object = None,
        most: int = 0,
    ) -> Self:
        """Begin the root task of a fit of at most `most` steps; for a fit `with_callbacks`."""
        metadata = {"sample_weight": sample_weight}
        if sample_weight is None:
            metadata = {}
        given = {"X": X, "y": y, "metadata": metadata}
        if not FOUND:
            return cls(model, None, given)
        # scikit-learn documents this method for authors of estimators, despite its underscore.
        context = model._init_callback_context(max_subtasks=most)
        return cls(model, context.call_on_fit_task_begin(estimator=model, **given), given)

    def steps(self, attributes: Callable[[Progress[Any]], Attributes]) -> "StepTasks":
        """Return the observer of the steps of the fit.

        `attributes` returns the fitted attributes of a fit that ended with a step.  It is called
        only for callbacks that want them.
        """
        return StepTasks(self, attributes)

    def step(self) -> "Tasks":
        """Begin the task of a step."""
        if self.context is None:
            return self
        context = self.context.subcontext(task_name="step")
        return Tasks(
            self.model,
            context.call_on_fit_task_begin(estimator=self.model, **self.given),
            self.given,
        )

    def end(self, attributes: Callable[[], Attributes] = dict) -> bool:
        """End the task, and return whether a callback asks to stop."""
        if self.context is None:
            return False
        asked = self.context.call_on_fit_task_end(
            estimator=self.model, reconstruction_attributes=attributes, **self.given
        )
        return bool(asked)


@dataclass
class StepTasks:
    """The observer of a fit that makes each step a task."""

    root: Tasks
    attributes: Callable[[Progress[Any]], Attributes]

    def begin_step(self) -> None:
        """Begin the task of a step."""
        self.task = self.root.step()

    def end_step(self, progress: Progress[Any]) -> bool:
        """End the task of a step, and return whether a callback asks to stop."""
        return self.task.end(partial(self.attributes, progress))
