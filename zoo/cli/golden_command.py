"""`zoo golden`: make and check reference activations."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.checkpoints.asked_entry import find_entry
from zoo.checkpoints.weights_argument import read_weights
from zoo.cli.common_options import Json, Model, examples
from zoo.cli.console import help_alone, print_result, progress_bar
from zoo.cli.derived import options_of
from zoo.errors import FAILED_CHECK, BadRequest
from zoo.options import FORCE, Option, argument, weights_from
from zoo.registry.lookup import info
from zoo.terminal import say

if TYPE_CHECKING:
    from zoo.checkpoints.load import Loaded

app = typer.Typer(help="Make reference outputs of other implementations, and compare with them.")
app.callback(invoke_without_command=True)(help_alone)

MAKE = examples("zoo golden make dinov3_vits16 vits16.safetensors --weights PATH")
CHECK = examples("zoo golden check vits16.safetensors --weights PATH --onnx FILE")
TARGET = (
    "What to write: NAME.safetensors for outputs, or NAME.pth for a checkpoint of seeded numbers."
)
Target = Annotated[Path, argument("DST", TARGET)]
Made = Annotated[Path, argument("FILE", "What `zoo golden make` wrote.")]
PICTURE = Option("FILE", "A picture to run on.", default="this package's photograph")
REFERENCE = Option("transformers|FILE", "What computes the outputs, or an .npz that holds them.")


@app.command("make", epilog=MAKE)
@options_of()
def make_golden(
    model: Model,
    target: Target,
    weights: Annotated[str | None, weights_from(False)] = None,
    image: Annotated[Path | None, PICTURE] = None,
    reference: Annotated[str, REFERENCE] = "transformers",
    seed: Annotated[int, Option(None, "The seed of a checkpoint.", least=0)] = 0,
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> None:
    """Write the outputs of another implementation for an image, to compare with later."""
    entry = info(model)
    from zoo.checkpoints import golden
    from zoo.files.staging import check_free, replacing

    check_free(target, force)

    if target.suffix == ".pth":
        with progress_bar() as progress:
            golden.make_checkpoint(entry, target, seed, progress)
        reference = f"seed {seed}"
    elif target.suffix != ".safetensors":
        raise BadRequest(
            f"{target} ends in neither .safetensors nor .pth: name a .safetensors for "
            "outputs, or a .pth for a checkpoint."
        )
    elif weights is None:
        raise BadRequest(f"{target} is to hold outputs: name the checkpoint with --weights.")
    else:
        from zoo.files.golden_file import write_golden
        from zoo.images.photograph import photographs
        from zoo.images.pictures import pictures
        from zoo.images.pixel_values import pixel_values

        how = entry.preprocessing
        pixels = pixel_values(pictures(image) if image else photographs(1), how, how.size)
        made = golden.make(entry, _load(entry.name, weights), pixels, reference)
        with replacing(target) as place:
            write_golden(place, made)
        reference = made.reference
    record = {"file": target, "model": entry.name, "reference": reference}
    print_result(json, record, lambda _: say(f"{target} was written: {entry.name}, {reference}"))


def _load(model: str, weights: str) -> "Loaded":
    """The weights that --weights names."""
    from zoo.checkpoints.load import open_weights

    with progress_bar() as progress:
        entry, choice = find_entry(model, read_weights(weights))
        return open_weights(choice, entry, progress)


@app.command("check", epilog=CHECK)
@options_of()
def check_golden(
    file: Made,
    weights: Annotated[str | None, weights_from(False)] = None,
    onnx: Annotated[Path | None, Option("FILE", "An exported file to check.")] = None,
    json: Json = False,
) -> int:
    """Compare a reference with the model in JAX (within 3e-5) and an ONNX file (within 1e-4)."""
    from zoo.checkpoints import golden
    from zoo.files.golden_file import read_golden

    reference = read_golden(file)
    rows: list[dict[str, Any]] = []
    if weights is not None:
        errors = golden.check_jax(reference, _load(reference.model, weights))
        rows += golden_errors("JAX", errors, golden.JAX_ATOL)
    if onnx is not None:
        rows += golden_errors("ONNX", golden.check_onnx(reference, onnx), golden.ONNX_ATOL)
    if not rows:
        raise BadRequest("name a checkpoint with --weights or a file with --onnx to compare.")
    passed = all(row["passed"] for row in rows)
    facts = {"model": reference.model, "reference": reference.reference, "passed": passed}
    title = f"{reference.model} against {reference.reference} ({file.name})"
    show = partial(show_differences, title)
    print_result(json, rows, show, lambda rows: facts | {"comparisons": rows})
    return 0 if passed else FAILED_CHECK


def golden_errors(where: str, errors: Mapping[str, float], limit: float) -> list[dict[str, Any]]:
    """How far each output is from the reference."""
    # A NaN, which JSON has none of, must fail.
    return [
        {"where": where, "output": name, "max_abs": error if math.isfinite(error) else None}
        | {"limit": limit, "passed": error <= limit}
        for name, error in errors.items()
    ]


def show_differences(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The same as a table."""
    from zoo.cli.tables import print_table

    shown = []
    for row in rows:
        error = "NaN" if row["max_abs"] is None else f"{row['max_abs']:.1e}"
        verdict = "ok" if row["passed"] else "FAILED"
        shown.append((row["where"], row["output"], error, f"{row['limit']:.0e}", verdict))
    print_table(("where", "~output", ">max abs", ">limit", ""), shown, title)
