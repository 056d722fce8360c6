"""`zoo golden`: write the outputs of another implementation, for `zoo verify` to compare with."""

from pathlib import Path
from typing import Annotated, Any

from zoo.checkpoints.source import read_weights
from zoo.cli.command_options import Model, derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.errors import BadRequest
from zoo.common.options import FORCE, Option, argument, weights_option
from zoo.registry.lookup import info

TARGET = (
    "What to write: NAME.safetensors for outputs, or NAME.pth for a checkpoint of random numbers."
)
Target = Annotated[Path, argument("DST", TARGET)]
PICTURE = Option(
    "FILE", "The picture to compute outputs for.", default="a photograph in this package"
)
REFERENCE = Option(
    "transformers|FILE", "The library that computes the outputs, or an .npz with them."
)


@derive_options()
def golden_command(
    model: Model,
    target: Target,
    weights: Annotated[str | None, weights_option(False)] = None,
    image: Annotated[Path | None, PICTURE] = None,
    reference: Annotated[str, REFERENCE] = "transformers",
    seed: Annotated[int, Option(None, "The seed of a checkpoint.", minimum=0)] = 0,
    force: Annotated[bool, FORCE] = False,
) -> CommandResult[dict[str, Any]]:
    """Write the outputs of another implementation, which `zoo verify` compares with."""
    entry = info(model)
    from zoo.checkpoints.golden import compute_golden, load_named_weights, write_random_checkpoint
    from zoo.common.staging import check_free, replacing

    check_free(target, force)

    if target.suffix == ".pth":
        with command_progress() as progress:
            write_random_checkpoint(entry, target, seed, progress)
        reference = f"seed {seed}"
    elif target.suffix != ".safetensors":
        raise BadRequest(
            f"{target} ends in neither .safetensors nor .pth: name a .safetensors for "
            "outputs, or a .pth for a checkpoint."
        )
    elif weights is None:
        raise BadRequest(
            f"{target} needs a checkpoint to compute outputs with: name it with --weights."
        )
    else:
        from zoo.common.golden_file import write_golden
        from zoo.images.photograph import photographs
        from zoo.images.pictures import pictures

        images = pictures(image) if image else photographs(1)
        with command_progress() as progress:
            loaded = load_named_weights(entry.name, read_weights(weights), progress)
        golden = compute_golden(entry, loaded, images, reference)
        with replacing(target) as path:
            write_golden(path, golden)
        reference = golden.reference
    record = {"file": target, "model": entry.name, "reference": reference}
    return CommandResult(record, lambda _: [f"{target} was written: {entry.name}, {reference}"])
