"""`zoo weights`: inspect, convert and download checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zoo.checkpoints.source import ADAPTER_BASE, TAKE, WITHOUT_HEAD, GivenCheckpoint
from zoo.cli.command_options import DryRun, Json, examples, model_names, options_of
from zoo.cli.console import help_alone, print_json, progress_bar, warn_nonfinite
from zoo.common.options import FORCE, Option, argument, flag, out_folder
from zoo.common.terminal import say
from zoo.registry.lookup import info

app = typer.Typer(help="Inspect, convert and download checkpoints.")
app.callback(invoke_without_command=True)(help_alone)

TARGET = "What to write: NAME.pth for Meta, NAME.tar.lz4 for Equimo, NAME.eqx for "
TARGET += "Equinox, or a folder for Hugging Face."
MODEL = Option(
    "MODEL",
    "The model, which has to be named where a checkpoint fits several.",
    models=True,
)
MIRROR = "Take a copy that somebody else than the publisher keeps, where one is known."
Source = Annotated[Path, argument("SRC", "A checkpoint: a file or a folder.")]
Target = Annotated[Path, argument("DST", TARGET)]

PUBLISHERS = {
    "meta": "Meta (facebookresearch)",
    "equimo": "Equimo",
    "google": "Google DeepMind",
    "original": "the authors",
    "huggingface": "Hugging Face transformers",
    "timm": "timm",
    "eqx": "Equinox",
    "": "nobody's that the zoo knows",
}

MOST_TENSORS = 1000
"""Lines of tensors that are shown."""


@app.command("inspect", epilog=examples("zoo weights inspect model.safetensors"))
@options_of()
def inspect_checkpoint(
    file: Source,
    take: Annotated[str, TAKE] = "",
    base: Annotated[Path | None, ADAPTER_BASE] = None,
    json: Json = False,
) -> None:
    """Say what a checkpoint is, which models it fits and what it holds."""
    from zoo.checkpoints.identify import inspect
    from zoo.cli.printed_tables import print_facts

    inspection = inspect(GivenCheckpoint(file, take, base=base))
    checkpoint, tensors = inspection.checkpoint, inspection.checkpoint.tensors
    if json:
        shapes = {key: {"dtype": t.dtype, "shape": t.shape} for key, t in tensors.items()}
        names = {"path": file, "container": checkpoint.container, "tensors": shapes}
        return print_json(vars(inspection) | {"checkpoint": names})
    facts = {
        "container": checkpoint.container,
        "names": PUBLISHERS[inspection.naming],
        "fits": " or ".join(inspection.models) or inspection.network or "no model of the zoo",
        **({"what it is": inspection.strangeness} if inspection.strangeness else {}),
        **({"prefix": inspection.prefix} if inspection.prefix else {}),
        **(
            {"passed over": ", ".join(sorted({*inspection.objects.values()}))}
            if inspection.objects
            else {}
        ),
        "tensors": f"{len(tensors)}, {inspection.parameters:,} numbers",
        "types": ", ".join(f"{count} {dtype}" for dtype, count in inspection.dtypes.items()),
        "size": f"{inspection.bytes / 1e6:,.1f} MB",
        "rotary periods": inspection.periods,
    }
    print_facts(checkpoint.path.name, facts)
    for key, tensor in list(tensors.items())[:MOST_TENSORS]:
        name = key if key.isprintable() else ascii(key)
        say(f"{name}  {tensor.dtype} {list(tensor.shape)}")


@app.command("convert", epilog=examples("zoo weights convert dinov3.pth FOLDER"))
@options_of()
def convert_checkpoint(
    source: Source,
    target: Target,
    model: Annotated[str | None, MODEL] = None,
    take: Annotated[str, TAKE] = "",
    without_head: Annotated[bool, WITHOUT_HEAD] = False,
    base: Annotated[Path | None, ADAPTER_BASE] = None,
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> None:
    """Write a checkpoint in the form that another library reads."""
    from zoo.checkpoints.convert import convert_file

    with progress_bar() as progress:
        asked = GivenCheckpoint(source, take, without_head, base=base)
        done = convert_file(asked, target, model, force, progress)
    if json:
        print_json(done)
    else:
        say(f"{done.target} was written: {done.model} for {PUBLISHERS[done.naming]}")
        if done.filled:
            say(f"the source does not hold {', '.join(done.filled)}: written as initialised")
        if done.dropped:
            more = f" and {len(done.dropped) - 3} more" if len(done.dropped) > 3 else ""
            say(f"not written, for want of a place: {', '.join(done.dropped[:3])}{more}")
        if done.rounded:
            say(f"rounded to bfloat16, as published files have it: {', '.join(done.rounded)}")
    warn_nonfinite(done.nonfinite)


@app.command("download", epilog=examples("zoo weights download dinov3_vits16 --dry-run"))
@options_of()
def download_checkpoints(
    models: Annotated[Sequence[str], model_names("Names or aliases of models.")],
    out: Annotated[Path | None, out_folder("the cache")] = None,
    mirror: Annotated[bool, flag(MIRROR)] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Download the checkpoint that `--weights auto` would use."""
    from zoo.checkpoints.download import download_checkpoint

    with progress_bar() as progress:
        brought = [download_checkpoint(info(it), out, mirror, dry_run, progress) for it in models]
    if json:
        return print_json(brought)
    for item in brought:
        how = f"{'to fetch: ' if dry_run else ''}{item.bytes / 1e6:,.1f} MB from {item.source}"
        say(f"{item.model}: {item.path} ({how if item.bytes else 'already there'})")
