"""Options that commands share, and the decorator that derives options from functions."""

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
from zoo.cli.console import CommandResult, command_progress
from zoo.common.options import SEVERAL, Option, argument, flag, option_parameters
from zoo.registry.lookup import MODELS

MANY_MODELS = "Many models"


class OpsetCommand(TyperCommand):
    """A command that accepts `--opset 18 23` in place of `--opset 18,23`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse command-line arguments after joining the numbers that follow `--opset`."""
        return super().parse_args(ctx, join_opsets(args))


def join_opsets(arguments: Sequence[str]) -> list[str]:
    """Return command-line arguments with the numbers after an `--opset` option joined by commas.

    `["--opset", "18", "23"]` becomes `["--opset", "18,23"]`.
    """
    joined: list[str] = []
    for text in arguments:
        after_opset = joined[-2:-1] == ["--opset"] or (joined and joined[-1].startswith("--opset="))
        if after_opset and text.isdecimal():
            joined[-1] += f",{text}"
        else:
            joined.append(text)
    return joined


def examples(*lines: str) -> str:
    """Return the text with examples of a command that ends its help, one example a line."""
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", *lines])


def model_names(help: str, metavar: str = "MODEL") -> Option:
    """Return an argument for one or more names of models, which shells can complete."""
    return argument(metavar, help, models=True)


Model = Annotated[str, model_names("The name or an alias of a model; `zoo list` shows them.")]
All = Annotated[bool, flag("Take every model of the zoo.", MANY_MODELS)]
Filter = Annotated[
    Sequence[str],
    Option(
        "PATTERN",
        f"Take the models whose names match, such as `vit5_*`. {SEVERAL}",
        MANY_MODELS,
        several=True,
    ),
]
DryRun = Annotated[bool, flag("Only print what would be done.")]
Plot = Annotated[
    Path | None, Option("FILE", "Also draw the result, as a .png, .jpg or .webp file.")
]
JSON = flag("Print the result as one JSON document, with nothing else on stdout.")
Json = Annotated[bool, JSON]
AS_JSON = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)
"""The parameter that every command that returns a `CommandResult` gets."""

Revision = Annotated[
    str | None,
    Option(
        "NAME",
        "The branch on the hub. `zoo pull` also accepts a tag or a commit.",
        default="main",
    ),
]


Function = Callable[..., Any]


def derive_options(*makers: Function) -> Callable[[Function], Function]:
    """Return a decorator that makes a command of a function, with options from annotations.

    The options are those of the `makers`, which are functions or request classes, and of the
    decorated function. Each maker is called with the values of its own options. The decorated
    function is then called with the results of the makers, in order, and with the values of its own
    options. An option that the user leaves out keeps the parameter's default. A maker with a
    parameter `progress` receives a progress bar.

    A function without a parameter `json` must return a `CommandResult`, and the command gets the
    option `--json`. The result is printed, as one JSON document with `--json`, and its exit code
    becomes that of the command.
    """

    def decorate(command: Function) -> Function:
        """Return a function with Typer's parameters that calls the makers and `command`."""
        groups = [option_parameters(function) for function in (*makers, command)]
        prints_result = "json" not in groups[-1]
        if prints_result:
            groups[-1] |= {"json": (AS_JSON, JSON)}
        options = {name: option for group in groups for name, option in group.items()}
        # Error messages use the name of the option in place of the name of the parameter.
        names = {name: option_name(name, option) for name, (_, option) in options.items()}
        spellings = {name.strip("-").replace("-", "_"): name for name in names.values()} | names

        @wraps(command)
        def run(**values: Any) -> Any:
            with use_option_names(spellings):
                *maker_values, own_values = (_read_values(group, values) for group in groups)
                requests = [
                    _call_maker(maker, arguments)
                    for maker, arguments in zip(makers, maker_values, strict=True)
                ]
                as_json = own_values.pop("json", False) if prints_result else False
                result = command(*requests, **own_values)
                if not prints_result:
                    return result
                assert isinstance(result, CommandResult)
                return result.show(as_json)

        parameters = [_typer_parameter(*option) for option in options.values()]
        parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def option_name(name: str, option: Option) -> str:
    """Return the name of an option on the command line, such as `--dry-run` for `dry_run`.

    `name` is the name of the parameter. A positional argument is named by its placeholder.
    """
    if option.positional:
        return (option.metavar or name).strip("[].")
    return option.name or f"--{name.replace('_', '-')}"


def complete(incomplete: str) -> list[str]:
    """Return the names of models that begin with a text, for shell completion."""
    return [name for name in MODELS if name.startswith(incomplete)]


def split_commas(values: list[str]) -> list[str]:
    """Split every value at its commas: `["a,b", "c"]` becomes `["a", "b", "c"]`.

    White space around a part is removed. Empty parts are kept.
    """
    return [part.strip() for value in values for part in value.split(",")]


def _call_maker(maker: Function, settings: dict[str, Any]) -> Any:
    """Call a function or request class with the values of its options, and return the result.

    If it has a parameter `progress`, a progress bar is passed and shown during the call.
    """
    if "progress" not in signature(maker).parameters:
        return maker(**settings)
    with command_progress() as progress:
        return maker(**settings, progress=progress)


def _read_values(
    group: dict[str, tuple[Parameter, Option]], values: dict[str, Any]
) -> dict[str, Any]:
    """Return the converted values of a function's options, by parameter name.

    **Arguments**

    - `group`: the parameters of the function and their options, by name.
    - `values`: the values of all options of the command. None means that the user left the option
      out. Such an option is missing in the result.

    **Raises** `BadRequest` for a value that cannot be converted.
    """
    values_given = {name: values[name] for name in group if values[name] is not None}
    return {name: _convert_value(group[name][1], value) for name, value in values_given.items()}


def _convert_value(option: Option, value: Any) -> Any:
    """Return a value from the command line converted to the type of the parameter.

    Values of a repeatable option are split at commas, and the value of a negating flag is inverted.
    """
    if option.several:
        value = split_commas(value)
    if option.negates:
        value = not value
    return value if option.convert is None else option.convert(value)


def _typer_parameter(declared: Parameter, option: Option) -> Parameter:
    """Return a parameter in the form that Typer reads: keyword-only, with Typer's annotation.

    `declared` is the parameter in the signature of a function. A default that Typer cannot
    represent becomes None.
    """
    settings: dict[str, Any] = {"metavar": option.metavar, "rich_help_panel": option.panel}
    settings |= {"help": option.help, "show_default": option.default}
    settings |= {"min": option.minimum, "max": option.maximum}
    if option.models:
        settings["autocompletion"] = complete
    named = option.flag or option.name
    info = (
        typer.Argument(**settings)
        if option.positional
        else typer.Option(*[option_name(declared.name, option)] * bool(named), **settings)
    )
    default, annotation = (
        declared.default,
        option.command_line_type or declared.annotation.__origin__,
    )
    if get_origin(annotation) is Sequence:
        annotation = GenericAlias(list, get_args(annotation))
    if option.flag and option.negates:
        default = not default
    elif declared.default is not Parameter.empty and not isinstance(
        default, str | int | float | Path
    ):
        default, annotation = None, annotation | None
    return declared.replace(
        kind=Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )
