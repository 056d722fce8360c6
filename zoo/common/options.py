"""Options: the description of a parameter, written once at the function or request that has it.

The command line, the reference page and the docstring are generated from it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, TypeVar

from weights.parameters import parameter
from zoo.common.errors import BadRequest

F = TypeVar("F", bound=Callable[..., Any])

SEVERAL = "May be repeated, or take several with commas between them."
"""The sentence in the help of an option that takes several values."""

OPTIONS = "{options}"
"""The placeholder in a docstring that `documented` replaces by the list of parameters."""


@dataclass(frozen=True)
class Option:
    """The description of a parameter, or of a field of a request, as an option of a command.

    `help` describes the option. Its other attributes:

    - `metavar`: the placeholder for the value in `--help`.
    - `panel`: the heading of `--help` under which the option is listed.
    - `name`: the name of the option, if it differs from the parameter's.
    - `default`: True to show the parameter's default in `--help`, False to hide it, or the default
      in words if it depends on other settings.
    - `command_line_type`: the type of the value on the command line, by default the type of the
      parameter.
    - `convert`: the function that converts the value from the command line to the parameter's type.
    - `minimum`, `maximum`: the bounds of a number, both included.
    - `several`: whether the option may be repeated and may take several values separated by commas.
    - `positional`: whether the parameter is an argument without an option name.
    - `flag`: whether the option takes no value.
    - `negates`: whether the flag sets the parameter to False.
    - `models`: whether the shell completes names of models.
    - `in_python`: the description for Python callers, if it differs from `help`.
    """

    metavar: str | None
    help: str
    panel: str | None = None
    name: str = ""
    default: str | bool = True
    command_line_type: Any = None
    convert: Callable[[Any], Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    several: bool = False
    positional: bool = False
    flag: bool = False
    negates: bool = False
    models: bool = False
    in_python: str = ""

    @property
    def docstring_text(self) -> str:
        """The description of the parameter for the docstring of a Python function.

        It is `in_python`, or else `help` with the default if that is given in words.
        """
        if self.in_python:
            return self.in_python
        text = self.help.removesuffix(f" {SEVERAL}")
        words = isinstance(self.default, str)
        return f"{text.removesuffix('.')}; by default {self.default}." if words else text


def flag(help: str, panel: str | None = None, **fields: Any) -> Option:
    """Return an option without a value, such as `--force`.

    `panel` is the heading of `--help` under which it is listed. `fields` sets other fields of
    `Option`.
    """
    return Option("", help, panel, flag=True, **fields)


def argument(metavar: str, help: str, **fields: Any) -> Option:
    """Return a positional argument of a command.

    `metavar` is its placeholder in `--help`. `fields` sets other fields of `Option`.
    """
    return Option(metavar, help, positional=True, **fields)


def option_parameters(function: Callable[..., Any]) -> dict[str, tuple[Parameter, Option]]:
    """Return the parameters of a function or dataclass that have an `Option`, by name.

    An `Option` is in the annotation of its parameter. Each value is the parameter as in the
    signature, and its option. Parameters without an option are left out.
    """
    return {
        name: (signature_parameter, option)
        for name, signature_parameter in signature(function).parameters.items()
        for option in getattr(signature_parameter.annotation, "__metadata__", ())
        if isinstance(option, Option)
    }


def documented(function: F) -> F:
    """Fill the list of parameters into a function's docstring, in place of `{options}`.

    The list has a line for each parameter that is annotated with an `Option`. The docstring is
    changed in place. Return the same function, for use as a decorator.
    """
    wrapped = partial(fill, width=96, subsequent_indent=6 * " ", break_on_hyphens=False)
    lines = [
        f"- `{name}`: {option.docstring_text}"
        for name, (_, option) in option_parameters(function).items()
    ]
    function.__doc__ = (function.__doc__ or "").replace(OPTIONS, "\n    ".join(map(wrapped, lines)))
    return function


def read_size(text: str) -> tuple[int, int] | Literal["dynamic"]:
    """Return (height, width) from a text such as `224` or `256x384`, or `"dynamic"` from `dynamic`.

    A single number is both height and width. Numbers are positive and have at most six digits.

    **Raises** `BadRequest` for any other text.
    """
    return "dynamic" if text == "dynamic" else read_sides(text, ", or `dynamic`")


def read_sides(text: str, other_forms: str = "") -> tuple[int, int]:
    """Return (height, width) from a text such as `224` or `256x384`.

    A single number is both height and width. Numbers are positive and have at most six digits.
    `other_forms` is added to the allowed forms that the error message lists.

    **Raises** `BadRequest` for any other text.
    """
    match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    sides = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if 0 in sides:
        raise BadRequest(
            f"{parameter('size')} {text} is no size: write one such as 224 or 256x384 "
            f"(HxW){other_forms}."
        )
    return sides


NETWORK_PANEL, FILE_PANEL, CHECKPOINT_PANEL = (
    "The network's input and output",
    "The ONNX file",
    "A checkpoint of your own",
)
REPLACE = "Replace existing files."
FORCE = flag(REPLACE)
OFFLINE = flag("Do not connect to the hub; use only files on this machine.")
SIZE = Option(
    "N|HxW",
    "Height and width in pixels, such as 224 or 256x384; `dynamic` leaves them open.",
    NETWORK_PANEL,
    default="the model's own",
    command_line_type=str,
    convert=read_size,
    in_python="Height and width in pixels, `224` or `(256, 384)`; `'dynamic'` leaves them open, "
    "and by default they are the model's own.",
)
FILE_SIZE = Option(
    "N|HxW",
    "Height and width in pixels, such as 224 or 256x384, where a file leaves them open.",
    command_line_type=str,
    convert=read_sides,
)


def out_folder_option(default: str | bool, suffix: str = "") -> Option:
    """Return the option for the output folder of a command.

    `default` is True to show the parameter's default in `--help`, False to hide it, or a text to
    show in its place. `suffix` is added to the end of the help sentence.
    """
    return Option(
        "FOLDER", f"The folder to write to{suffix}.", default=default, command_line_type=Path
    )


FILE_OUT = Option("FILE", "The file to write.", command_line_type=Path)


def weights_option(default: str | bool) -> Option:
    """Return the option for the source of weights: `auto`, `random`, or a checkpoint's path.

    `default` is True to show the parameter's default in `--help`, False to hide it, or a text to
    show in its place.
    """
    return Option(
        "auto|random|PATH",
        "Where the weights come from. `auto` searches this machine and downloads missing weights; "
        "`random` or `random:SEED` draws them; anything else is the path of a checkpoint.",
        default=default,
        command_line_type=str,
    )
