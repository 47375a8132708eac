"""Where a fit that resumes goes on, and the check that its data and parameters are still the same."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.engine.loop import Algorithm, Progress
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.flags import flags
from dask_dpmeans.registry import METHODS
from dask_dpmeans.sources import check_names
from dask_dpmeans.storage.manifest import Manifest, ResultManifest
from dask_dpmeans.storage.output import Output, remove
from dask_dpmeans.storage.run_store import RunStore

LIMITS = frozenset({"max_iter", "max_clusters"})
"""Parameters with which a run may go on, whatever they were before."""
FINGERPRINT = "fingerprint"
"""The field of an input that tells whether the rows are the same."""


def seed_for(store: Output, seed: int | None, resume: bool) -> int:
    """Return the seed that was given, the seed of the run that is resumed, or a drawn one."""
    if not (resume and store.begun()):
        return int(np.random.default_rng().integers(2**31)) if seed is None else seed
    begun = store.request().random_state
    if seed not in (None, begun):
        raise InputError(
            f"{store.path} was begun with seed {begun}, not {seed}: leave the seed out to go on with it"
        )
    return begun


def starting_point(
    store: RunStore, request: Manifest, source: Source, method: Algorithm[Any], resume: bool
) -> Progress[Any] | None:
    """Return where to go on from; None for the method's own start."""
    if resume and store.begun():
        store.steps.discard_uncommitted()
        if not store.steps.committed():
            return None
        state, history, converged = store.steps.restore(method.state)
        objective = method.score(source, state)
        if objective != state.objective:  # in any bit
            raise InputError(
                f"the last step of {store.path} has the objective {state.objective!r}, but on these rows its centers "
                f"give {objective!r}: the input has changed, or this is another type of CPU; force=True starts anew"
            )
        return Progress(state, history, converged)
    method.init(source)
    if store.kind() is not None:  # the names load all methods
        remove(store, run_array_names())
    store.begin(request.as_json())
    return None


def is_complete(store: RunStore, method: Algorithm[Any]) -> bool:
    """Return whether the run is finished and no step can follow."""
    if not (store.finished() and store.begun()):
        return False
    _, history, converged = store.steps.restore(method.state)
    if converged or len(history) >= method.max_iter:
        return True
    with store.open("run") as found:  # the step that found nothing to change is not committed
        return ResultManifest.from_json(found.attributes).converged


def check_resumable(store: Output, request: Manifest) -> None:
    """Refuse to resume a run of other data or other parameters; limits may change."""
    if store.finished() and not (store.begun() or store.empty()):
        raise CorruptStoreError(
            f"{store.path} is a run whose steps are missing: force=True removes it and starts anew"
        )
    if not store.begun():
        return
    before = store.request()
    differs = (
        _other_method(before, request)
        or _other_parameters(before, request)
        or _other_input(before, request)
    )
    if differs:
        raise InputError(f"{store.path}{differs}, or --force to start anew")


def _other_method(before: Manifest, now: Manifest) -> str:
    """Return that another method is asked for, and a way out; nothing if it is the same."""
    if before.method == now.method:
        return ""
    there, here = before.estimator, now.estimator
    if there.name != here.name:
        entry = METHODS.get(there.name)
        command = f" (dask-dpmeans {entry.command})" if entry and entry.command else ""
        return f" was begun with {there.name}, not {here.name}; give the same method again{command}"
    changed = _changed_names(there.parameters, here.parameters, here.parameters.keys() - LIMITS)
    deciding = ("penalty", "search", *sorted(changed))
    again = _options({name: there.parameters.get(name) for name in deciding})
    differs = _describe_changes(there.parameters, here.parameters, sorted(changed))
    return f" was begun with another method: {differs}; give the same method again{again}"


def _other_parameters(before: Manifest, now: Manifest) -> str:
    """Return which parameters differ, and a way out; nothing if they are the same."""
    there, here = before.parameters, now.parameters
    names = [name for name in [*here, *(there.keys() - here)] if name not in LIMITS]
    changed = _changed_names(there, here, names)
    if not changed:
        return ""
    # those that are left out have defaults, which the estimator knows
    there, here = ({**each.estimator.parameters, **each.parameters} for each in (before, now))
    again = _options({name: before.estimator.parameters.get(name) for name in changed})
    return (
        f" was begun with other parameters: {_describe_changes(there, here, changed)}; give the same "
        f"parameters again{again}"
    )


def _other_input(before: Manifest, now: Manifest) -> str:
    """Return in what the input differs, and a way out; nothing if it is the same.

    A dry run has not read the rows, so it knows less than the run.
    """
    there, here = before.input.as_json(), now.input.as_json()
    changed = _changed_names(there, here, [*here, "sparse"])
    if not changed:
        return ""
    if changed != [FINGERPRINT]:
        names = [name for name in changed if name != FINGERPRINT]
        named = _describe_changes(there, here, names)
        return f" was begun with another input: {named}; give the same input again"
    then, data = (each.sources.get("data") or "memory" for each in (before, now))
    differ = f"the rows in {data} are not the rows in {then}, with which the run began"
    if then == data:
        differ = f"the rows in {data}, or what is given with them, have changed since the run began"
    return f": {differ}; give the same again"


def _changed_names(
    there: Mapping[str, Any], here: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    return [name for name in names if there.get(name) != here.get(name)]


def _describe_changes(
    there: Mapping[str, Any], here: Mapping[str, Any], names: Iterable[str]
) -> str:
    return ", ".join(f"{name} {there.get(name)}, not {here.get(name)}" for name in names)


def _options(parameters: Mapping[str, Any]) -> str:
    """Return the options that give some parameters, in brackets; nothing without any."""
    given = {name: value for name, value in parameters.items() if value not in (None, False)}
    return f" ({' '.join(flags(given))})" if given else ""


def resumed_request(store: RunStore, request: Manifest) -> Manifest:
    """Return the request with the names of the columns that the run was begun with, if any."""
    check_resumable(store, request)
    names = None
    if store.begun():
        names = store.request().column_names
    if names is None:
        return request
    check_names(request.column_names, names, "the run")
    return replace(request, column_names=names)
