"""Declare options that commands share, and derive options from the parameters of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand

from weights.parameters import use_option_names
from zoo.cli.console import CommandResult, progress_bar
from zoo.common.options import SEVERAL, Option, argument, flag, stated
from zoo.registry.lookup import MODELS

MANY = "Many models"


class SpreadOpsets(TyperCommand):
    """A command where `--opset 18 23` means `--opset 18,23`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, join_opsets(args))


def join_opsets(arguments: Sequence[str]) -> list[str]:
    """Numbers that follow an opset belong to it."""
    joined: list[str] = []
    for each in arguments:
        behind = joined[-2:-1] == ["--opset"] or (joined and joined[-1].startswith("--opset="))
        if behind and each.isdecimal():
            joined[-1] += f",{each}"
        else:
            joined.append(each)
    return joined


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", *lines])


def model_names(help: str, metavar: str = "MODEL") -> Option:
    """Names of models, to which shells complete."""
    return argument(metavar, help, models=True)


Model = Annotated[str, model_names("The name or an alias of a model; `zoo list` shows them.")]
All = Annotated[bool, flag("Take every model of the zoo.", MANY)]
Filter = Annotated[
    Sequence[str],
    Option(
        "PATTERN",
        f"Take the models whose names fit, such as `vit5_*`. {SEVERAL}",
        MANY,
        several=True,
    ),
]
DryRun = Annotated[bool, flag("Only say what would be done.")]
Plot = Annotated[
    Path | None, Option("FILE", "Also draw what was found, as a .png, .jpg or .webp file.")
]
JSON = flag("Print the result as one JSON document, with nothing else on stdout.")
Json = Annotated[bool, JSON]
AS_JSON = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)
"""The parameter of every command that returns a `CommandResult`."""

Revision = Annotated[
    str | None,
    Option(
        "NAME",
        "The branch on the hub. `zoo pull` takes a tag or a commit too.",
        default="main",
    ),
]


Made = Callable[..., Any]


def options_of(*makers: Made) -> Callable[[Made], Made]:
    """A command that has the options of functions or requests, then those of its own.

    It is called with what each of the makers makes of them. What nobody said is left to the
    defaults there. A maker that takes `progress` is shown a bar. A command without a parameter
    `json` returns a `CommandResult` and gets that option: the result is printed, with `--json` as
    one document, and its exit code is that of the command.
    """

    def derived(command: Made) -> Made:
        groups = [stated(each) for each in (*makers, command)]
        prints = "json" not in groups[-1]
        if prints:
            groups[-1] |= {"json": (AS_JSON, JSON)}
        every = {name: each for group in groups for name, each in group.items()}
        # What parameters are called in messages, by their names and by those of the options.
        called = {name: option_name(name, option) for name, (_, option) in every.items()}
        spelled_so = {each.strip("-").replace("-", "_"): each for each in called.values()} | called

        @wraps(command)
        def run(**values: Any) -> Any:
            with use_option_names(spelled_so):
                *made, own = (_read(group, values) for group in groups)
                requests = [_made(maker, how) for maker, how in zip(makers, made, strict=True)]
                as_json = own.pop("json", False) if prints else False
                result = command(*requests, **own)
                if not prints:
                    return result
                assert isinstance(result, CommandResult)
                return result.show(as_json)

        parameters = [_parameter(*each) for each in every.values()]
        parameters.sort(key=lambda each: each.default is not Parameter.empty)
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return derived


def option_name(name: str, option: Option) -> str:
    """Name of a parameter on the command line."""
    if option.positional:
        return (option.metavar or name).strip("[].")
    return option.name or f"--{name.replace('_', '-')}"


def complete(incomplete: str) -> list[str]:
    """The models whose names a shell may complete to."""
    return [name for name in MODELS if name.startswith(incomplete)]


def split_commas(values: list[str]) -> list[str]:
    """`a,b` and `c` as `a`, `b` and `c`."""
    return [part.strip() for value in values for part in value.split(",")]


def _made(maker: Made, how: dict[str, Any]) -> Any:
    if "progress" not in signature(maker).parameters:
        return maker(**how)
    with progress_bar() as progress:
        return maker(**how, progress=progress)


def _read(group: dict[str, tuple[Parameter, Option]], values: dict[str, Any]) -> dict[str, Any]:
    """Values as functions take them. **Raises** `BadRequest`."""
    said = {name: values[name] for name in group if values[name] is not None}
    return {name: _value(group[name][1], value) for name, value in said.items()}


def _value(option: Option, value: Any) -> Any:
    if option.several:
        value = split_commas(value)
    if option.negates:
        value = not value
    return value if option.read is None else option.read(value)


def _parameter(each: Parameter, option: Option) -> Parameter:
    """A parameter as Typer reads it."""
    settings: dict[str, Any] = {"metavar": option.metavar, "rich_help_panel": option.panel}
    settings |= {"help": option.help, "show_default": option.default}
    settings |= {"min": option.least, "max": option.most}
    if option.models:
        settings["autocompletion"] = complete
    named = option.flag or option.name
    info = (
        typer.Argument(**settings)
        if option.positional
        else typer.Option(*[option_name(each.name, option)] * bool(named), **settings)
    )
    default, annotation = each.default, option.given or each.annotation.__origin__
    if get_origin(annotation) is Sequence:
        annotation = GenericAlias(list, get_args(annotation))
    if option.flag and option.negates:
        default = not default
    elif each.default is not Parameter.empty and not isinstance(default, str | int | float | Path):
        default, annotation = None, annotation | None
    return each.replace(
        kind=Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )
