"""The group of all commands: the library's errors as messages and exit codes."""

import warnings
from typing import Any

import click

from dask_dpmeans.errors import (
    ClusterLostError,
    CorruptStoreError,
    InputError,
    LockLostError,
    NoWorkersError,
    TooManyClustersError,
    VersionsDifferError,
    of_store,
    redacted,
)


class WrongUseError(click.ClickException):
    """Something that cannot be used."""

    exit_code = 2


class StoppedError(click.ClickException):
    """A fit that was stopped, and can go on."""

    exit_code = 3


class Commands(click.Group):
    """A group that turns the library's errors into messages and exit codes."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command: 0 done, 2 wrong use or bad input, 3 stopped and resumable, 1 anything else."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _say_warning
            try:
                return super().invoke(context)
            except (InputError, NoWorkersError, TooManyClustersError, VersionsDifferError) as error:
                raise WrongUseError(str(error)) from error
            except BrokenPipeError:  # who read the output has seen enough
                raise
            except (CorruptStoreError, ClusterLostError, LockLostError) as error:
                raise click.ClickException(str(error)) from error
            except Exception as error:
                if not of_store(error):
                    raise
                raise click.ClickException(redacted(str(error) or type(error).__name__)) from error


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)
