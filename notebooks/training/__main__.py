"""`python -m notebooks.training`: train the weights of `vit_digits`, `depth_digits`, `boxes_digits`
and `siglip_digits_dual`, which the package contains."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from zoo.cli.console import command_progress, run_command_line
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.common.staging import check_free, replacing
from zoo.common.terminal import print_stdout
from zoo.registry.lookup import info
from zoo.tasks.answer import TEMPLATE

if TYPE_CHECKING:
    from zoo.architectures.base import Network
    from zoo.architectures.entry import ModelInfo
    from zoo.data.digits.data import Digits

Tell: TypeAlias = Callable[[int, float], None]
TrainedModel: TypeAlias = Literal[
    "vit_digits", "depth_digits", "boxes_digits", "siglip_digits_dual"
]

SEED = "Seed of the split, the initial weights and the order."
OUT = "File to write the weights to."
VALIDATE = "Measure on a fifth of the training digits."
MODEL = "Which model to train: vit_digits, depth_digits, boxes_digits or siglip_digits_dual."

SCENES, MEASURED = 8000, 1000
"""Numbers of scenes or canvases for training and for measuring."""


def train_digits(
    model: Annotated[TrainedModel, typer.Argument(help=MODEL)] = "vit_digits",
    seed: Annotated[int, typer.Option(min=0, help=SEED)] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=OUT)] = None,
    validate: Annotated[bool, typer.Option("--validate", help=VALIDATE)] = False,
) -> None:
    """Train a model, write the weights as safetensors, and print the accuracy on held-out
    digits."""
    _check_options(out, validate)
    from notebooks.training.classifier import save_weights
    from zoo.data.digits.data import split_digits

    entry = info(model)
    training, held_out = split_digits(seed, validate)
    with command_progress() as progress:
        progress.stage(f"training on {len(training.labels)} digits")

        def tell(steps: int, loss: float) -> None:
            progress.stage(f"step {steps}: loss {loss:.3f}")

        model_result, text = TRAINERS[model](entry, training, held_out, seed, tell)
    if out is not None:
        with replacing(out) as file:
            save_weights(file, model_result, entry)
    print_stdout(f"{text} {'validation' if validate else 'held-out'} digits")


def _train_classifier(
    entry: ModelInfo, training: Digits, held_out: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.classifier import Recipe, accuracy, train

    model, _ = train(entry, training, seed, Recipe(), tell)
    return model, f"{accuracy(model, entry, held_out):.2%} of {len(held_out.labels)}"


def _train_depth(
    entry: ModelInfo, training: Digits, held_out: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.depth_training import measure, train_depth
    from zoo.data.digits.scenes import draw_scenes

    model, _ = train_depth(entry, draw_scenes(training, SCENES, seed), seed, tell=tell)
    score = measure(model, entry, draw_scenes(held_out, MEASURED, seed))
    return model, (
        f"the nearer of two is told in {score.order:.1%}, nearness is {score.error:.3f} off and "
        f"{score.there:.1%} of pixels are right, in {MEASURED} scenes of {len(held_out.labels)}"
    )


def _train_boxes(
    entry: ModelInfo, training: Digits, held_out: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.box_training import measure, train_boxes
    from zoo.data.digits.scattered import scatter

    model, _ = train_boxes(entry, scatter(training, SCENES, seed), seed, tell=tell)
    precision = measure(model, entry, scatter(held_out, MEASURED, seed))
    return model, (
        f"average precision is {precision:.1%} on {MEASURED} canvases of {len(held_out.labels)}"
    )


def _train_towers(
    entry: ModelInfo, training: Digits, held_out: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.sentences import NAMES, all_sentences
    from notebooks.training.word_training import train_words, zero_shot

    model, _ = train_words(entry, training, all_sentences(), seed, tell=tell)
    texts = [TEMPLATE.format(name) for name in NAMES]
    accuracy = zero_shot(model, entry, held_out, texts)
    return model, f"by ten sentences such as {texts[3]!r} {accuracy:.2%} of {len(held_out.labels)}"


TRAINERS = {
    "vit_digits": _train_classifier,
    "depth_digits": _train_depth,
    "boxes_digits": _train_boxes,
    "siglip_digits_dual": _train_towers,
}


def _check_options(out: Path | None, validate: bool) -> None:
    """Check the options before the training. **Raises** a `ZooError`, because a training takes
    minutes."""
    if out is not None and validate:
        raise BadRequest("--validate measures and writes no weights: run it without --out.")
    if out is not None:
        check_free(out, advice="remove it or name another file")
    if importlib.util.find_spec("optax") is None:
        raise MissingLibrary("training needs optax, which is not installed: `pip install optax`.")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(train_digits)
    run_command_line(app)
