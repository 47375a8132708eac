"""The group of all commands, and their help under headings.

Errors of the library become messages in the words of the command line, and exit codes.
"""

import ast
import errno
import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from time import perf_counter
from typing import Any, NamedTuple, TypeGuard

import click

from dask_dpmeans import errors
from dask_dpmeans.cli.stopping import STOPPED, stoppable
from dask_dpmeans.estimators.row_options import COUNTS, EXPLAINED, refuse_options
from dask_dpmeans.flags import OPTIONS, flags
from dask_dpmeans.registry import METHODS

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the errors of a disk or a quota that is full, and of a file that may not grow."""
AGAIN = {"force", "resume"}
"""Options of the command that made an output, which errors about it name in each command."""
ANEW, FORCED = "the same command begins anew", ", with --force if its output was begun"
"""How a command that was stopped, and keeps no state, goes on; the latter if it has that option."""


class WrongUseError(click.ClickException):
    """Wrong use or bad input."""

    exit_code = 2


class StoppedError(click.ClickException):
    """A command that was stopped or lost its cluster; the same command may succeed later."""

    exit_code = STOPPED


class Home(NamedTuple):
    """The module of a command, and its summary."""

    module: str
    """Module that defines `{name}_command`."""
    summary: str
    """Line in the list of all commands."""


UNPRINTED = "the output cannot be printed"
BEGAN = "dask_dpmeans.began"
"""Key in a context: when the command began, before its module was loaded, which may take seconds."""


def command_start() -> float:
    """Return when the command began, as `perf_counter` tells it; now if no command runs."""
    ctx = click.get_current_context(silent=True)
    now = perf_counter()
    return now if ctx is None else float(ctx.meta.get(BEGAN, now))


class UnprintedError(OSError):
    """The disk has no room for the standard output."""

    strerror: str


def print_lines(text: str) -> None:
    """Write lines to the standard output, from which programs read the result."""
    try:
        click.echo(text)
    except OSError as error:
        if not is_full(error):
            raise
        raise UnprintedError(error.errno, f"{UNPRINTED}: {error.strerror}") from error


class Commands(click.Group):
    """A group that loads a command only when it is called."""

    def __init__(
        self, *arguments: Any, homes: Callable[[], Mapping[str, Home]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.homes = homes
        """Returns the commands, by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self.homes())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        home = self.homes().get(cmd_name)
        if home is None:
            return None
        command: click.Command = getattr(import_module(home.module), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of all commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, home.summary) for name, home in sorted(self.homes().items())]
            )

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line; Ctrl-C and SIGTERM stop it from here on."""
        with stoppable():
            try:
                return super().main(*arguments, **options)
            except OSError as error:  # of --help and --version, which no `invoke` calls
                if not is_full(error):
                    raise
                click.echo(f"Error: {UNPRINTED}: {error.strerror}", err=True)
                raise SystemExit(1) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit codes: 0 done, 2 wrong use or bad input, 3 stopped, 1 others."""
        ctx.meta[BEGAN] = perf_counter()
        with stoppable(), short_logs(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _say_warning
            try:
                return super().invoke(ctx)
            except click.NoSuchOption as error:
                _refuse_row_option(error)
                raise
            except KeyboardInterrupt as error:
                raise StoppedError(f"stopped: {self.begins_anew(ctx)}") from error
            except (
                errors.InputError,
                errors.TooManyClustersError,
                errors.VersionsDifferError,
            ) as error:
                raise WrongUseError(in_options(str(error), AGAIN | self.options_of(ctx))) from error
            except (errors.ClusterLostError, errors.NoWorkersError) as error:
                raise StoppedError(str(error)) from error
            except BrokenPipeError:  # the reader of the output has closed it
                raise
            except (errors.CorruptStoreError, errors.LockLostError) as error:
                raise click.ClickException(in_options(str(error), AGAIN)) from error
            except Exception as error:
                if not errors.of_store(error):
                    raise
                if errors.lacks_credentials(error) or errors.lacks_credentials(error.__cause__):
                    raise WrongUseError(errors.redact(errors.reason_of(error))) from error
                if is_forbidden(error):
                    raise WrongUseError(f"{errors.redact(str(error))}: {way_in(error)}") from error
                if isinstance(error, UnprintedError):
                    raise click.ClickException(error.strerror) from error
                if is_full(error):
                    way = f"make room; {self.begins_anew(ctx)}"
                    raise StoppedError(f"{error.strerror}: {way}") from error
                raise click.ClickException(
                    errors.redact(str(error) or type(error).__name__)
                ) from error

    def options_of(self, ctx: click.Context) -> set[str]:
        """Return the names of the options of the command that was called."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        params = () if command is None else command.params
        return {str(each.name) for each in params if isinstance(each, click.Option)}

    def begins_anew(self, ctx: click.Context) -> str:
        """Return how the command that was called goes on, if it keeps no state."""
        return ANEW + FORCED if "force" in self.options_of(ctx) else ANEW

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; from now on, a signal stops it in order."""
        near = get_close_matches(args[0], self.homes(), 1) or _of_estimator(args[0])
        if near and args[0] not in self.homes():
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        found = super().resolve_command(ctx, args)
        with stoppable() as stopper:
            stopper.working = True
        return found


def _of_estimator(name: str) -> list[str]:
    """Return the commands of the estimators whose names begin so, such as shapes for linkage.

    >>> _of_estimator("linkage"), _of_estimator("graph-cut"), _of_estimator("cluster")
    (['shapes'], ['graph'], [])
    """
    begin = name.replace("-", "").replace("_", "").lower()
    if len(begin) < 3:
        return []
    found = [each.command for title, each in METHODS.items() if title.lower().startswith(begin)]
    return [each for each in found if each]


def is_forbidden(error: BaseException) -> bool:
    """Return whether an error says that the user may not read or write a place."""
    return _is_read_only(error) or isinstance(error, PermissionError)


def _is_read_only(error: BaseException) -> bool:
    """Return whether an error says that a disk is read-only."""
    return isinstance(error, OSError) and error.errno == errno.EROFS


def way_in(error: BaseException) -> str:
    """Return what to do if an error says that a file or a folder is closed to the user."""
    if _is_read_only(error):
        return "nothing can be written there: make it writable, or give another place"
    return (
        "this user may not read it, or write there: change its permissions, or give another place"
    )


def is_full(error: BaseException) -> TypeGuard[OSError]:
    """Return whether an error says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in FULL


def _refuse_row_option(error: click.NoSuchOption) -> None:
    """Raise an error that says why the estimator of a command has no such option, if it is known."""
    name = error.option_name.lstrip("-").replace("-", "_")
    command = "" if error.ctx is None else error.ctx.command.name
    if command == "fit" and name in COUNTS:
        raise WrongUseError(
            f"fit has no {error.option_name}: dask-dpmeans penalty DATA -k 3 finds the price of 3 clusters, "
            "and dask-dpmeans shapes DATA RUN --clusters 3 makes 3 clusters of any shape"
        ) from error
    for estimator, entry in METHODS.items():
        if entry.command == command and name in EXPLAINED:  # spares loading the estimator
            try:
                refuse_options(estimator, signature(entry.spec.estimator).parameters, [name])
            except errors.InputError as reason:
                raise WrongUseError(str(reason)) from error


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)


LOGGERS = ("asyncio", "distributed", "tornado")
"""Packages that log errors of connections with tracebacks; the command itself says what happens
next."""


ABANDONED = "Task was destroyed but it is pending!"
"""Beginning of what asyncio says, as a process ends, of each request that Zarr left when another failed."""


def _is_other(record: logging.LogRecord) -> bool:
    """Return whether a record is about anything but such a request: the error of the command says it."""
    return not record.getMessage().startswith(ABANDONED)


@contextmanager
def short_logs() -> Iterator[None]:
    """Cut messages of these packages to their first line; leave out abandoned requests, to the end."""
    logging.getLogger("asyncio").addFilter(_is_other)
    make = logging.getLogRecordFactory()

    def short(*given: Any, **more: Any) -> logging.LogRecord:
        record = make(*given, **more)
        if record.name.partition(".")[0] in LOGGERS:
            message = record.getMessage().strip().partition("\n")[0]
            if not message and record.exc_info and record.exc_info[0]:
                message = record.exc_info[0].__name__
            record.msg, record.args = message, ()
            record.exc_info = record.exc_text = record.stack_info = None
        return record

    logging.setLogRecordFactory(short)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)


NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\d.,]*\d)"
"""A number that Python can read: no group of digits follows after a comma."""
VALUE = rf"'[^']*'|\"[^\"]*\"|True|\{{'[^{{}}]*\}}|{NUMBER}"
"""A value of a parameter in a message."""
CALL = rf"(\w+(?:Means|Mixture))\((\w+)=({VALUE})\)"
"""An estimator with one parameter."""
ARGUMENT = rf"(?<![\w(])(\w+)=({VALUE})(?! or --)"
"""A parameter with its value."""
OTHER_CALL = r"[\w.]\([^()]*\)"
"""Python that is no advice about options."""
NAME = r"(?<![\w./'\"-])([a-z]+(?:_[a-z]+)+)(?![\w/'\"(=-])"
"""A parameter of several words."""
TOKEN = re.compile(rf"{CALL}|{OTHER_CALL}|{ARGUMENT}|{NAME}")


def in_options(message: str, known: Collection[str]) -> str:
    """Return a message with parameters as options, if their names in the command are `known`.

    >>> in_options("gap_tol needs effort='best'; see DPMeans(missing='observed')", {"gap_tol", "effort"})
    "--gap-tol needs --effort best; see DPMeans(missing='observed')"
    >>> in_options("use HDPMeans(divergence={'kind': 'categorical'})", {"divergence"})
    'use HDPMeans with --divergence kind=categorical'
    """

    def option(found: re.Match[str]) -> str:
        estimator, first, its_value, name, value, alone = found.groups()
        parameter = first or name or alone
        if parameter is None or OPTIONS.get(parameter, parameter) not in known:
            return found[0]
        if alone:
            return flags({alone: True})[0]
        try:
            words = " ".join(flags({parameter: ast.literal_eval(its_value or value)}))
        except (SyntaxError, ValueError):  # a dict that was cut
            return found[0]
        return f"{estimator} with {words}" if estimator else words

    return TOKEN.sub(option, message)


FEW = 12
"""Commands with at most so many options list them without headings."""
HEADINGS = {
    "More about the rows": "weights samples features variables fill_missing storage_options",
    "Distances and other costs": (
        "metric divergence missing discount outlier_penalty outlier_share min_cluster_weight "
        "kernel gamma degree coef0 approximation components"
    ),
    "Search and its end": "effort gap_tol init max_iter tol max_clusters",
    "Output": "dry live as_json",
    "Where to run": (
        "scheduler scheduler_file workers threads memory_limit worker_timeout tls_ca_file tls_cert "
        "tls_key"
    ),
}
"""Names of options, by heading.

The others come first: what only this command has, and what most people need."""


def _print_help(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        print_lines(ctx.get_help())
        ctx.exit()


class CommandWithHeadings(click.Command):
    """A command whose help lists many options under headings."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option of the help, which goes where all results go."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _print_help
        return option

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: the ones that most people need, and then each heading with its own."""
        params = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if len(params) <= FEW:
            super().format_options(ctx, formatter)
            return
        places = {name: title for title, names in HEADINGS.items() for name in names.split()}
        for title in ("Options", *HEADINGS):
            records = [
                each.get_help_record(ctx)
                for each in params
                if places.get(str(each.name), "Options") == title
            ]
            lines = [each for each in records if each is not None]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)
