"""`zoo golden`: make and check reference activations."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.console import FAILED_CHECK, progress_bar
from zoo.errors import BadOutput, BadRequest
from zoo.registry.lookup import info

app = typer.Typer(help="Reference activations: make them, check them.", no_args_is_help=True)

Weights = Annotated[Path | None, typer.Option(metavar="PATH", help="A checkpoint.")]


@app.command("make")
def make_golden(
    model: Annotated[str, typer.Argument(help="Name or alias.")],
    out: Annotated[Path, typer.Argument(help="NAME.npz, or NAME.pth for a seeded checkpoint.")],
    weights: Weights = None,
    image: Annotated[Path | None, typer.Option(help="A picture; our own by default.")] = None,
    reference: Annotated[
        str, typer.Option(metavar="transformers|FILE.npz", help="Who computes it, or computed it.")
    ] = "transformers",
    seed: Annotated[int, typer.Option(min=0, help="Of a seeded checkpoint.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write what a reference makes of an image and a checkpoint; or a seeded checkpoint."""
    entry = info(model)
    if out.exists() and not force:
        raise BadOutput(f"{out} exists already: replace it with --force, or name another place.")
    from zoo.checkpoints import golden

    if out.suffix == ".pth":
        with progress_bar() as progress:
            golden.make_checkpoint(entry, out, seed, progress)
        return
    if out.suffix != ".npz" or weights is None:
        raise BadRequest("name an .npz to write and a checkpoint with --weights, or a .pth.")
    from zoo.images.photograph import photographs
    from zoo.images.pixel_values import pixel_values

    how = entry.preprocessing
    pixels = golden.pixels(entry, image) if image else pixel_values(photographs(1), how, how.size)
    golden.write(out, golden.make(entry, golden.load(entry, weights), pixels, reference))


@app.command("check")
def check_golden(
    file: Annotated[Path, typer.Argument(help="An .npz that `make` wrote.")],
    weights: Weights = None,
    onnx: Annotated[Path | None, typer.Option(help="An exported file to check as well.")] = None,
) -> int:
    """Compare the model in JAX (3e-5) and an ONNX file (1e-4) with a reference."""
    from zoo.checkpoints import golden
    from zoo.cli.tables.results import show_differences

    found = golden.read(file)
    results: list[tuple[str, dict[str, float], float]] = []
    if weights is not None:
        loaded = golden.load(info(found.model), weights)
        results.append(("JAX", golden.check_jax(found, loaded), golden.JAX_ATOL))
    if onnx is not None:
        results.append(("ONNX", golden.check_onnx(found, onnx), golden.ONNX_ATOL))
    if not results:
        raise BadRequest("name a checkpoint with --weights or a file with --onnx to compare.")
    show_differences(file, found, results)
    # Not `any(… > …)`: a NaN must fail.
    passed = all(error <= limit for _, errors, limit in results for error in errors.values())
    return 0 if passed else FAILED_CHECK
