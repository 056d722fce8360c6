"""What a parameter is, stated where the function or the request is that has it: its command, its
page and its docstring are written from that."""

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

OPTIONS = "{options}"
"""What stands in a docstring where `documented` writes what each parameter is."""


@dataclass(frozen=True)
class Option:
    """A parameter of a function, or a field of a request, and how a command line has it.

    `help` says what it is, and `in_python` that where it is something else there. A command line
    gives a value of the type `given`, by default that of the parameter, and `read` makes the
    parameter's own of it. `name` is that of the option where it is not the parameter's; one without
    a value is a `flag`, which may say that the parameter is false. `default` is that in words where
    it depends on something, or whether it is shown at all. An option of `several` values may be
    repeated, and takes them with commas as well. A number is `least` to `most`. A shell completes
    names of `models`.
    """

    metavar: str | None
    help: str
    panel: str | None = None
    name: str = ""
    default: str | bool = True
    given: Any = None
    read: Callable[[Any], Any] | None = None
    least: float | None = None
    most: float | None = None
    several: bool = False
    positional: bool = False
    flag: bool = False
    negates: bool = False
    models: bool = False
    in_python: str = ""

    @property
    def meaning(self) -> str:
        """Meaning for a function."""
        if self.in_python:
            return self.in_python
        text = self.help.removesuffix(f" {SEVERAL}")
        words = isinstance(self.default, str)
        return f"{text.removesuffix('.')}; by default {self.default}." if words else text


def flag(help: str, panel: str | None = None, **more: Any) -> Option:
    """An option without a value."""
    return Option("", help, panel, flag=True, **more)


def argument(metavar: str, help: str, **more: Any) -> Option:
    """Argument that a command takes by its place."""
    return Option(metavar, help, positional=True, **more)


def stated(function: Callable[..., Any]) -> dict[str, tuple[Parameter, Option]]:
    """The parameters of a function, or the fields of a dataclass, that are options too."""
    return {
        name: (each, option)
        for name, each in signature(function).parameters.items()
        for option in getattr(each.annotation, "__metadata__", ())
        if isinstance(option, Option)
    }


def documented(function: F) -> F:
    """Write into a function's docstring what its parameters are."""
    wrapped = partial(fill, width=96, subsequent_indent=6 * " ", break_on_hyphens=False)
    lines = [f"- `{name}`: {option.meaning}" for name, (_, option) in stated(function).items()]
    function.__doc__ = (function.__doc__ or "").replace(OPTIONS, "\n    ".join(map(wrapped, lines)))
    return function


def read_size(text: str) -> tuple[int, int] | Literal["dynamic"]:
    """(height, width) from `224` or `256x384`, or `dynamic`. **Raises** `BadRequest`."""
    return "dynamic" if text == "dynamic" else read_sides(text, ", or `dynamic`")


def read_sides(text: str, more: str = "") -> tuple[int, int]:
    """(height, width) from `224` or `256x384`. **Raises** `BadRequest`."""
    match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    sides = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if 0 in sides:
        raise BadRequest(
            f"{parameter('size')} {text} is no size: write one such as 224 or 256x384 (HxW){more}."
        )
    return sides


NETWORK, FILE, OWN = "The network's input and output", "The ONNX file", "A checkpoint of your own"
REPLACE = "Replace files that are there already."
FORCE = flag(REPLACE)
OFFLINE = flag("Never ask the hub; use what is on this machine.")
SIZE = Option(
    "N|HxW",
    "Height and width in pixels, such as 224 or 256x384; `dynamic` leaves them open.",
    NETWORK,
    default="the model's own",
    given=str,
    read=read_size,
    in_python="Height and width in pixels, `224` or `(256, 384)`; `'dynamic'` leaves them open, "
    "and by default they are the model's own.",
)
FILE_SIZE = Option(
    "N|HxW",
    "Height and width in pixels, such as 224 or 256x384, where a file leaves them open.",
    given=str,
    read=read_sides,
)


def out_folder(default: str | bool, more: str = "") -> Option:
    """The folder that is written to."""
    return Option("FOLDER", f"The folder to write to{more}.", default=default, given=Path)


FILE_OUT = Option("FILE", "The file to write.", given=Path)


def weights_from(default: str | bool) -> Option:
    """Where weights come from."""
    return Option(
        "auto|random|PATH",
        "Where the weights come from. `auto` looks in the usual places and downloads what is not "
        "there; `random` or `random:SEED` draws them; anything else is the path of a checkpoint.",
        default=default,
        given=str,
    )
