"""Options that several commands have."""

from typing import Annotated

import typer

from zoo.export.request import Input

All = Annotated[bool, typer.Option("--all", help="Every model of the zoo.")]

Filter = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Of --all, names like '*vits*'; may be repeated."),
]

Weights = Annotated[
    str, typer.Option(metavar="auto|random[:SEED]|PATH", help="Where the weights come from.")
]

Images = Annotated[
    Input, typer.Option(help="uint8 takes RGB images of any size and preprocesses in the file.")
]

Force = Annotated[bool, typer.Option("--force", help="Replace earlier files; keep inexact ones.")]

Offline = Annotated[bool, typer.Option("--offline", help="Never ask the hub for weights.")]

Json = Annotated[bool, typer.Option("--json", help="Print the manifests as JSON and nothing else.")]
