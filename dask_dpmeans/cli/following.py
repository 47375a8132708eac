"""The command that fits with a penalty that another command found."""

import json
import os

import click
from click.core import ParameterSource

from dask_dpmeans.cli import library
from dask_dpmeans.cli.fitting import fit_command
from dask_dpmeans.errors import redact
from dask_dpmeans.flags import columns_text

OWN_OPTIONS = ("data", "search", "seed", "penalty", "resume", "force", "as_json")
"""Options that are not copied to the next command."""


def next_command(
    data: str, penalty: float, *, search: bool = False, seed: int | None = None
) -> str:
    """Return the command that fits `data` with a penalty.

    Options for reading are copied from this command.
    """
    context = click.get_current_context()
    known = {option.name for option in fit_command.params} - set(OWN_OPTIONS)
    options: list[str] = []
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name in known:
            options += _words(option.opts[0], context.params[str(option.name)])
    names = (library.commands.RUN, *(f"run-{number}.zarr" for number in range(2, 100)))
    run = next((name for name in names if not os.path.exists(name)), library.commands.RUN)
    return library.commands.next_fit(
        redact(data), penalty, search=search, seed=seed, options=options, run=run
    )


def _words(flag: str, value: object) -> list[str]:
    """Return an option as words, without the values of storage options, which may be secret."""
    if value is True:
        return [flag]
    if isinstance(value, dict) and flag == "--storage-option":
        return [word for key in value for word in (flag, f"{key}=...")]
    if isinstance(value, dict):
        return [flag, columns_text(value)]
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))]
    return [flag, redact(value) if isinstance(value, str) else json.dumps(value)]
