"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from perfguard.cli import cli
from perfguard.cli.output import Exit
from perfguard.reports.prose import code, prose, sentence, table

#: Options that every command has.
_EVERYWHERE = ("--help", "--color")


def page() -> str:
    """Return the page."""
    context = click.Context(cli, info_name="perfguard", **cli.context_settings)
    commands = [*_commands(cli, context)]
    everywhere = [one for one in cli.get_params(context) if isinstance(one, click.Option)]
    return "\n".join(
        [
            "# Command line\n",
            f"{prose(_paragraphs(cli)[0])}\n",
            table(
                ("command", "what it does"),
                (
                    (f"[{code(found.command_path)}](#{_target(found)})", sentence(command.get_short_help_str(1000)))
                    for command, found in commands
                ),
            ),
            "\n## Options of every command\n",
            "`--version` is an option of `perfguard` alone. Commands that pass their arguments on to pytest leave `--color` to "
            "pytest.\n",
            _options(everywhere, context),
            "\n(exit-codes)=\n## Exit codes\n",
            f"{prose(inspect.getdoc(Exit) or '')}\n",
            table(("code", "means"), ((code(str(one.value)), sentence(one.meaning)) for one in Exit)),
            *(line for command, found in commands for line in _section(command, found)),
        ]
    )


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found = click.Context(command, info_name=name, parent=context, **command.context_settings)
        if isinstance(command, click.Group):
            yield from _commands(command, found)
        else:
            yield command, found


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n({_target(context)})=\n## {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    for paragraph in _paragraphs(command):
        example, _, rest = paragraph.partition(": ")
        yield f"Example: {code(rest)}\n" if example == "Example" else f"{prose(paragraph)}\n"
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    own = [one for one in options if not {*one.opts} & {*_EVERYWHERE}]
    if own:
        yield _options(own, context)


def _options(options: list[click.Option], context: click.Context) -> str:
    return table(
        ("option", "value", "default", "meaning"),
        (
            (
                ", ".join(map(code, _names(one))),
                code(_value(one, context)),
                _default(one, context),
                sentence(_meaning(one)),
            )
            for one in options
        ),
    )


def _names(option: click.Option) -> list[str]:
    """Return the names of an option, long ones first: click has those of `--help` in any order."""
    return [*sorted(option.opts, key=lambda name: (not name.startswith("--"), name)), *option.secondary_opts]


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return " | ".join(map(str, option.type.choices))
    value = option.make_metavar(context)
    bounds = option.type._describe_range() if isinstance(option.type, (click.IntRange, click.FloatRange)) else ""
    return f"{value} ({bounds.replace('x', value)})" if bounds else value


def _default(option: click.Option, context: click.Context) -> str:
    value = option.get_default(context)
    return code(f"{value:g}" if isinstance(value, float) else str(value)) if _has_default(option, value) else ""


def _has_default(option: click.Option, value: object) -> bool:
    # click has a value of its own for no default, which is not of these types.
    return not option.is_flag and not option.multiple and isinstance(value, (str, int, float))


def _meaning(option: click.Option) -> str:
    again = " May be repeated." if option.multiple and "May be repeated" not in (option.help or "") else ""
    return f"{option.help or ''}{again}"


def _paragraphs(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n")]


def _target(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")
