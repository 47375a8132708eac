"""The command that goes on from what another found."""

import json
import os
from typing import Any

import click
from click.core import ParameterSource

from dask_dpmeans import shell
from dask_dpmeans.cli.fitting import fit_command
from dask_dpmeans.errors import redacted

SAID_ANEW = ("data", "search", "seed", "penalty", "resume", "force", "as_json")
"""What the next command says for itself."""


def following(data: str, penalty: float, *, search: bool = False, seed: int | None = None) -> str:
    """Return the command that fits `data` with a penalty that this command found, reading it with the same options."""
    context = click.get_current_context()
    known = {option.name for option in fit_command.params} - set(SAID_ANEW)
    options: list[str] = []
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name in known:
            options += _words(option.opts[0], context.params[str(option.name)])
    names = (shell.RUN, *(f"run-{number}.zarr" for number in range(2, 100)))
    run = next((name for name in names if not os.path.exists(name)), shell.RUN)
    return shell.next_fit(redacted(data), penalty, search=search, seed=seed, options=options, run=run)


def _words(flag: str, value: Any) -> list[str]:
    """An option as it is given; the values of storage options are told to nobody."""
    if value is True:
        return [flag]
    if isinstance(value, dict):
        return [word for key in value for word in (flag, f"{key}=...")]
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))]
    return [flag, redacted(value) if isinstance(value, str) else json.dumps(value)]
