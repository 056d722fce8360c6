"""`python -m notebooks.training`: trains the weights of `vit_digits`, `depth_digits`,
`boxes_digits` and `siglip_digits_dual`, which the package holds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from zoo.cli.console import progress_bar, run_command_line
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.common.staging import check_free, replacing
from zoo.common.terminal import say
from zoo.registry.lookup import info
from zoo.tasks.answer import TEMPLATE

if TYPE_CHECKING:
    from zoo.architectures.base import Network
    from zoo.architectures.entry import ModelInfo
    from zoo.data.digits.data import Digits

Tell: TypeAlias = Callable[[int, float], None]
Trained: TypeAlias = Literal["vit_digits", "depth_digits", "boxes_digits", "siglip_digits_dual"]

SEED = "Of the split, the first weights, and the order."
OUT = "Where to write the weights, if anywhere."
VALIDATE = "Measure on a fifth of the training digits."
MODEL = "Which model to train: vit_digits, depth_digits, boxes_digits or siglip_digits_dual."

SCENES, MEASURED = 8000, 1000
"""Of digits that are trained on, and of those that are not."""


def train_digits(
    model: Annotated[Trained, typer.Argument(help=MODEL)] = "vit_digits",
    seed: Annotated[int, typer.Option(min=0, help=SEED)] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=OUT)] = None,
    validate: Annotated[bool, typer.Option("--validate", help=VALIDATE)] = False,
) -> None:
    """Train, write the weights as safetensors, and say how right they are on held-out digits."""
    _check(out, validate)
    from notebooks.training.classifier import save_weights
    from zoo.data.digits.data import split_digits

    entry = info(model)
    seen, unseen = split_digits(seed, validate)
    with progress_bar() as progress:
        progress.stage(f"training on {len(seen.labels)} digits")

        def tell(steps: int, loss: float) -> None:
            progress.stage(f"step {steps}: loss {loss:.3f}")

        trained, told = TRAINERS[model](entry, seen, unseen, seed, tell)
    if out is not None:
        with replacing(out) as file:
            save_weights(file, trained, entry)
    say(f"{told} {'validation' if validate else 'held-out'} digits")


def _classifier(
    entry: ModelInfo, seen: Digits, unseen: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.classifier import Recipe, accuracy, train

    model, _ = train(entry, seen, seed, Recipe(), tell)
    return model, f"{accuracy(model, entry, unseen):.2%} of {len(unseen.labels)}"


def _depth(
    entry: ModelInfo, seen: Digits, unseen: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.depth_training import measure, train_depth
    from zoo.data.digits.scenes import draw_scenes

    model, _ = train_depth(entry, draw_scenes(seen, SCENES, seed), seed, tell=tell)
    found = measure(model, entry, draw_scenes(unseen, MEASURED, seed))
    return model, (
        f"the nearer of two is told in {found.order:.1%}, nearness is {found.error:.3f} off and "
        f"{found.there:.1%} of pixels are right, in {MEASURED} scenes of {len(unseen.labels)}"
    )


def _boxes(
    entry: ModelInfo, seen: Digits, unseen: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.box_training import measure, train_boxes
    from zoo.data.digits.scattered import scatter

    model, _ = train_boxes(entry, scatter(seen, SCENES, seed), seed, tell=tell)
    found = measure(model, entry, scatter(unseen, MEASURED, seed))
    return model, (
        f"average precision is {found:.1%} on {MEASURED} canvases of {len(unseen.labels)}"
    )


def _words(
    entry: ModelInfo, seen: Digits, unseen: Digits, seed: int, tell: Tell
) -> tuple[Network, str]:
    from notebooks.training.sentences import NAMES, all_sentences
    from notebooks.training.word_training import train_words, zero_shot

    model, _ = train_words(entry, seen, all_sentences(), seed, tell=tell)
    texts = [TEMPLATE.format(name) for name in NAMES]
    found = zero_shot(model, entry, unseen, texts)
    return model, f"by ten sentences such as {texts[3]!r} {found:.2%} of {len(unseen.labels)}"


TRAINERS = {
    "vit_digits": _classifier,
    "depth_digits": _depth,
    "boxes_digits": _boxes,
    "siglip_digits_dual": _words,
}


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
