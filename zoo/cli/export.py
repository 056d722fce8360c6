"""`python -m zoo.export MODEL`: a model of the zoo as a verified ONNX file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.console import FAILED_CHECK, progress_bar, warn_nonfinite
from zoo.cli.options import All, Filter, Force, Images, Json, Offline, Weights
from zoo.errors import BadRequest
from zoo.export.request import Layout, Options, Precision, read_request
from zoo.registry.lookup import info, select

FIRST = {"vit_digits": "auto", "dinov3_vits16": "random"}
"""What is exported where no model was named, and with which weights: neither needs a network."""


def export(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Name or alias; `zoo list` shows them. Without: vit_digits with the trained "
            "weights of this package, and dinov3_vits16 with random ones; nothing is downloaded."
        ),
    ] = None,
    all: All = False,
    filter: Filter = None,
    opset: Annotated[
        list[int] | None, typer.Option(metavar="N …", help="17 to 26; one or more.")
    ] = None,
    weights: Weights = "auto",
    size: Annotated[
        str | None,
        typer.Option(metavar="N|HxW|dynamic", help="Pixels; the model's own by default."),
    ] = None,
    batch: Annotated[
        str, typer.Option(metavar="dynamic|N", help="Batch size in the file.")
    ] = "dynamic",
    layers: Annotated[
        str | None,
        typer.Option(metavar="I,J,…|lastN", help="Hidden states to give as well, from 1."),
    ] = None,
    reshape: Annotated[
        bool, typer.Option("--reshape", help="Hidden states as maps [B, D, h, w].")
    ] = False,
    input: Images = "float32",
    attention_layout: Annotated[
        Layout, typer.Option(help="4d runs everywhere, 3d is a little faster in ONNX Runtime.")
    ] = "4d",
    precision: Annotated[
        Precision, typer.Option(help="Of the weights and of what is computed inside.")
    ] = "fp32",
    out: Annotated[
        Path | None, typer.Option(help="Folder, or a .onnx file for a single opset.")
    ] = None,
    force: Force = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not compare the file with JAX.")
    ] = False,
    offline: Offline = False,
    json: Json = False,
) -> int:
    """Write MODEL-opset23.onnx and its manifest, checked in ONNX Runtime against JAX."""
    options = Options(
        opsets=opset or (23,),
        weights=weights,
        size=size,
        batch=batch,
        layers=layers,
        reshape=reshape,
        input=input,
        layout=attention_layout,
        precision=precision,
        out=out,
        force=force,
        verify=not no_verify,
        offline=offline,
    )
    # A misspelt name should not wait for JAX to load.
    if model is None and not all and not filter:
        return export_many(first_jobs(options), json)
    names = select(model, all, filter or ())
    if all:
        return export_many([(name, options) for name in names], json)
    return export_one(names[0], options, json)


def first_jobs(options: Options) -> list[tuple[str, Options]]:
    """`FIRST` with everything else as asked. **Raises** `BadRequest` if weights were asked for."""
    if options.weights != "auto":
        raise BadRequest(
            f"--weights {options.weights} is about one model and none was named: name one (`zoo "
            "list` shows them), or ask for --all."
        )
    return [(name, replace(options, weights=weights)) for name, weights in FIRST.items()]


def export_one(name: str, options: Options, json: bool) -> int:
    """Export a model and show the result."""
    import converter
    from zoo.export import run as pipeline

    request = read_request(name, options, converter.OPSETS)
    with progress_bar() as progress:
        exports = pipeline.run(request, progress)
    warn_nonfinite(exports[0].nonfinite)
    if json:
        from zoo.manifest.text import to_text

        print(to_text([export.manifest for export in exports]), end="")
    else:
        from zoo.cli.tables.results import show_exports

        show_exports(exports)
    return 0 if all(export.published for export in exports) else FAILED_CHECK


def export_many(jobs: Sequence[tuple[str, Options]], json: bool) -> int:
    """Export one model after the other, whatever becomes of the others, and sum up."""
    from zoo.export import many as bulk

    with progress_bar() as progress:
        outcomes = bulk.run([(info(name), options) for name, options in jobs], progress)
    if json:
        from zoo.manifest.text import to_text

        print(to_text([bulk.record(outcome) for outcome in outcomes]), end="")
    else:
        from zoo.cli.tables.results import show_outcomes

        show_outcomes(outcomes)
    return max(outcome.code for outcome in outcomes)


app = typer.Typer(add_completion=False)
"""`python -m zoo.export`, which is this command alone."""

app.command()(export)
