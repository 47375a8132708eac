"""The help of long commands: each option once, under a heading, the most needed ones first."""

import click
import pytest
from click.testing import CliRunner

from dask_dpmeans.cli import homes, main
from dask_dpmeans.cli.headings import FEW, HEADINGS

COMMANDS = sorted(homes())


def sections(name):
    """The help of a command, by heading."""
    found = CliRunner().invoke(main, [name, "--help"]).output
    parts, title = {"": []}, ""
    for line in found.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            title = line[:-1]
            parts[title] = []
        parts[title].append(line)
    return {title: "\n".join(lines) for title, lines in parts.items()}


def options(name):
    context = click.Context(main)
    command = main.get_command(context, name)
    return [each for each in command.get_params(context) if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_of_a_command_is_told_once_and_many_are_under_headings(name):
    parts, given = sections(name), options(name)
    for option in given:
        told = [title for title, text in parts.items() if f"\n  {_first(option)}" in text]
        assert len(told) == 1, option.name
        names = HEADINGS.get(told[0], "").split()
        if len(given) > FEW:
            assert (option.name in names) == (told[0] != "Options")
    assert (len(parts) > 2) == (len(given) > FEW)


def _first(option):
    return ", ".join(sorted(option.opts, key=len))


def test_what_most_people_need_comes_first_in_the_help_of_fit():
    first = sections("fit")["Options"]
    for name in ("--penalty", "--search", "--columns", "--scale", "--seed", "--resume", "--force"):
        assert f"\n  {name} " in first
    assert "--tls-key" not in first


def test_every_heading_holds_options_that_some_command_has():
    known = {option.name for name in COMMANDS for option in options(name)}
    for names in HEADINGS.values():
        assert set(names.split()) <= known
