"""scikit-learn's callbacks, where it has them: from release 1.9 on, experimental.

A fit is the root of a tree of tasks, with one task a step below it, and callbacks are told when each begins and ends.
One that asks to stop, by answering true at the end of a step, ends the fit with what that step came to, as `max_iter`
does; nothing warns that it has not converged, since that was asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self, TypeVar

FOUND = find_spec("sklearn.callback") is not None

CallbackSupport: Any = object
"""What an estimator inherits from: `set_callbacks`, and what makes the root of its tasks."""

Fit = TypeVar("Fit", bound=Callable[..., Any])


def with_callbacks(fit: Fit) -> Fit:
    """A fit after which callbacks are torn down, whether it ends well or not."""
    return fit


if FOUND:
    from sklearn import callback

    CallbackSupport, with_callbacks = callback.CallbackSupportMixin, callback.with_callbacks

FRAMES = int(FOUND)
"""That the decorator adds between a fit and who calls it."""


@dataclass(frozen=True)
class Tasks:
    """The tasks of a fit, as callbacks are told of them; of scikit-learn without callbacks, nobody is."""

    model: Any
    context: Any
    """The root of the tree, or the task of a step; None where there are no callbacks."""
    given: Mapping[str, Any]
    """X, y and metadata, as the fit was given them."""

    @classmethod
    def of(cls, model: Any, X: Any, y: Any = None, sample_weight: Any = None, most: int = 0) -> Self:
        """The root of the tasks of a fit of at most so many steps, which begins; for a fit `with_callbacks`."""
        metadata = {} if sample_weight is None else {"sample_weight": sample_weight}
        given = {"X": X, "y": y, "metadata": metadata}
        if not FOUND:
            return cls(model, None, given)
        # scikit-learn documents this method as public for those who write estimators, whatever its underscore says.
        context = model._init_callback_context(max_subtasks=most)
        return cls(model, context.call_on_fit_task_begin(estimator=model, **given), given)

    def step(self) -> "Tasks":
        """A step begins."""
        if self.context is None:
            return self
        context = self.context.subcontext(task_name="step")
        return Tasks(self.model, context.call_on_fit_task_begin(estimator=self.model, **self.given), self.given)

    def end(self, attributes: Callable[[], Mapping[str, Any]] = dict) -> bool:
        """The task ends; whether a callback asks to stop.

        `attributes` are what a fit that ended here would have noted, made only for callbacks that want them.
        """
        if self.context is None:
            return False
        return bool(
            self.context.call_on_fit_task_end(estimator=self.model, reconstruction_attributes=attributes, **self.given)
        )
