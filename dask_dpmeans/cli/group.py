"""The group of all commands: they load when called, and the library's errors become messages and exit codes."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from dask_dpmeans.cli.logs import short_logs
from dask_dpmeans.cli.stopping import STOPPED, stoppable
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
    """A command that was stopped, or lost its cluster, and may succeed when it is given again."""

    exit_code = STOPPED


class Commands(click.Group):
    """A group whose commands load when they are called."""

    def __init__(self, *arguments: Any, homes: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.homes = homes
        """The module of each command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, its module loaded."""
        if cmd_name not in self.homes:
            return None
        module = import_module(f"dask_dpmeans.cli.{self.homes[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line; Ctrl-C and SIGTERM are heard from here on."""
        with stoppable():
            return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command: 0 done, 2 wrong use or bad input, 3 stopped, 1 anything else."""
        with stoppable(), short_logs(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _say_warning
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as error:
                raise StoppedError(
                    "stopped: the same command begins anew, with --force if its output was begun"
                ) from error
            except (InputError, TooManyClustersError, VersionsDifferError) as error:
                raise WrongUseError(str(error)) from error
            except (ClusterLostError, NoWorkersError) as error:
                raise StoppedError(str(error)) from error
            except BrokenPipeError:  # who read the output has seen enough
                raise
            except (CorruptStoreError, LockLostError) as error:
                raise click.ClickException(str(error)) from error
            except Exception as error:
                if not of_store(error):
                    raise
                raise click.ClickException(redacted(str(error) or type(error).__name__)) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was asked for; once it is loaded, a signal lets it end in order."""
        found = super().resolve_command(ctx, args)
        with stoppable() as stopper:
            stopper.working = True
        return found


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)
