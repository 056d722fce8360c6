"""`python -m zoo.digits`: trains the weights of `vit_digits`, which the package holds."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from weights.terminal import say
from zoo.cli.console import progress_bar, run_command_line
from zoo.errors import BadRequest, MissingLibrary
from zoo.files.staging import check_free, replacing
from zoo.registry.lookup import info

SEED = "Of the split, the first weights, and the order."
OUT = "Where to write the weights, if anywhere."
VALIDATE = "Measure on a fifth of the training digits."


def train_digits(
    seed: Annotated[int, typer.Option(min=0, help=SEED)] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=OUT)] = None,
    validate: Annotated[bool, typer.Option("--validate", help=VALIDATE)] = False,
) -> None:
    """Train, write the weights as safetensors, and say how many held-out digits are read right."""
    _check(out, validate)
    from zoo.digits import data as digits
    from zoo.digits.training import Recipe, accuracy, save_weights, train

    entry = info("vit_digits")
    seen, unseen = digits.split_digits(seed, validate)
    with progress_bar() as progress:
        progress.stage(f"training on {len(seen.labels)} digits")

        def tell(steps: int, loss: float) -> None:
            progress.stage(f"step {steps}: loss {loss:.3f}")

        model, _ = train(entry, seen, seed, Recipe(), tell)
    if out is not None:
        with replacing(out) as file:
            save_weights(file, model, entry)
    right = accuracy(model, entry, unseen)
    kind = "validation" if validate else "held-out"
    say(f"{right:.2%} of {len(unseen.labels)} {kind} digits")


def _check(out: Path | None, validate: bool) -> None:
    """**Raises** a `ZooError` before minutes of training would be for nothing."""
    if out is not None and validate:
        raise BadRequest("--validate only measures, and writes no weights: run it without --out.")
    if out is not None:
        check_free(out, advice="remove it or name another file")
    if importlib.util.find_spec("optax") is None:
        raise MissingLibrary("training needs optax, which is not installed: `pip install optax`.")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(train_digits)
    run_command_line(app)
