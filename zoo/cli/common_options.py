"""The vocabulary of the command line: options that several commands have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer.core import TyperCommand

from zoo.common.options import SEVERAL, Option, argument, flag

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
Json = Annotated[bool, flag("Print the result as one JSON document, with nothing else on stdout.")]
Revision = Annotated[
    str | None,
    Option(
        "NAME",
        "The branch on the hub. `zoo pull` takes a tag or a commit too.",
        default="main",
    ),
]
