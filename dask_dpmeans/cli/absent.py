"""Local paths that do not exist are refused before the library loads, which takes seconds."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dask_dpmeans.cli.group import WrongUseError

ELSEWHERE = (":/", "::", "*", "?", "[")
"""What a URL or a pattern has, and a path seldom has: the library looks for these."""
STORES = ("zarr.json", ".zgroup", ".zarray")
"""Files of a folder of Zarr, in which the library tells what is there."""


def check_data(text: str) -> None:
    """Raise an error for a local path of rows that does not exist."""
    if is_absent(text):
        raise WrongUseError(f"data: {_shown(text)} does not exist")


def check_run(text: str) -> None:
    """Raise an error for a local path of a run that does not exist."""
    if is_absent(text):
        raise WrongUseError(f"{_shown(text)} holds no run of this package: nothing is there")


def present(name: str, check: Callable[[str], None]) -> Callable[..., Any]:
    """Return a decorator that adds an argument, which is checked before the command runs."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def checked(**given: Any) -> Any:
            check(given[name])
            return command(**given)

        return click.argument(name)(checked)

    return decorate


DATA_ARGUMENT = present("data", check_data)
"""Path or URL of rows."""
RUN_ARGUMENT = present("run", check_run)
"""Path or URL of a run."""


def is_absent(text: str) -> bool:
    """Return whether a text is a local path at which there surely is nothing.

    A path may go on inside a file, such as ``cells.h5ad/X``, or inside a folder of Zarr, and may
    end with columns, such as ``table.parquet#age,income``.
    """
    if any(mark in text for mark in ELSEWHERE):
        return False
    text = os.path.expanduser(text)
    path = Path(text)
    columns = [place for place, letter in enumerate(text) if letter == "#"]
    try:
        if path.exists() or any(Path(text[:place]).exists() for place in columns):
            return False
        there = next(each for each in path.absolute().parents if each.exists())
        return there.is_dir() and not any((there / name).exists() for name in STORES)
    except OSError:  # such as a name that is too long: the library tells
        return False


def _shown(text: str) -> str:
    return os.path.abspath(os.path.expanduser(text))
