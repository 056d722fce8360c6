"""Outcomes of users' fine-tuned checkpoints, by network, way of saving and head. `python -m
tests.fine_tuned` writes the tables of `docs/how-to/own-checkpoints.md`.

`tests/zoo/checkpoints/test_fine_tuned.py` compares each row with what the package does.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.pages import table, with_part
from tests.references.classifiers import OWN
from tests.references.fine_tuned import FAMILIES, HEADS, LINEAR_HEADS, OF_MAP, Features, seeded
from tests.references.timm_options import architecture_rows, option_rows
from weights.progress import Quiet
from zoo.checkpoints.convert import convert_file
from zoo.checkpoints.source import GivenCheckpoint

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "own-checkpoints.md"

Outcome = Literal["read", "asked", "refused"]

State = dict[str, torch.Tensor]

NAMES = ("out", "clf", "score", "linear_probe", "fc", "head", "classifier", "cls_layer")
"""Names that users give to a head."""


def _by_meta(network: Any, folder: Path) -> State:
    """Return the tensors of a network in Meta's names."""
    network.save_pretrained(folder / "theirs")
    convert_file(GivenCheckpoint(folder / "theirs"), folder / "meta.pth", None, False, Quiet())
    return dict(torch.load(folder / "meta.pth"))


def _in_memory(network: Any, folder: Path) -> State:
    """Return the tensors of a network in the names that they have in memory."""
    return dict(network.state_dict())


def _within(prefix: str, state: State) -> State:
    return {prefix + name: value for name, value in state.items()}


@dataclass(frozen=True)
class Way:
    """A way of saving a network and its head.

    `network` and `head` are prefixes of their tensors' names. `tensors` returns the network's
    tensors, and `content` what the file holds for a state. `of` are the networks that are saved in
    this way, by default all. The file has the rotary periods of the networks in `rounds` in
    bfloat16.
    """

    words: str
    network: str
    head: str = ""
    tensors: Callable[[Any, Path], State] = _in_memory
    content: Callable[[State], Any] = lambda state: state
    rounds: tuple[str, ...] = ()
    of: tuple[str, ...] = tuple(FAMILIES)


OPTIMIZER = {
    "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(3, 5)}},
    "param_groups": [{"lr": 1e-3, "params": [0]}],
}

BY_META = ("DINOv2", "DINOv2 with registers", "DINOv3")

WAYS = {
    way.words: way
    for way in (
        Way("`state_dict()` of a module with the network in it", "backbone."),
        Way("`state_dict()` of the network, to which a layer was added", ""),
        Way(
            "a checkpoint of Lightning",
            *("model.encoder.", "model."),
            content=lambda state: {
                "state_dict": state,
                "optimizer_states": [OPTIMIZER],
                "epoch": 3,
            },
        ),
        Way(
            "a table of a script, with an averaged copy and a best result",
            *("module.backbone.", "module."),
            content=lambda state: {
                "model": {name: torch.zeros_like(value) for name, value in state.items()},
                "model_ema": state,
                "optimizer": OPTIMIZER,
                "best_accuracy": torch.tensor(0.9),
                "criterion": {"weight": torch.ones(5)},
            },
        ),
        Way("two tables, of network and head", "backbone.", "classifier_head."),
        Way(
            "Meta's names in a module",
            "backbone.",
            tensors=_by_meta,
            of=BY_META,
            rounds=("DINOv3",),
        ),
    )
}


@dataclass(frozen=True)
class Case:
    """A network with a head, and how both are saved. `told` says whether `global_pool` is in
    the config.json in the same folder."""

    family: str
    way: str
    head: str
    name: str
    told: bool

    def __str__(self) -> str:
        pool = "told" if self.told else "not told"
        return f"{self.family}, {self.way}, {self.head} ({self.name}), {pool}"

    @property
    def vector(self) -> str:
        """The vector that the head takes; empty if it takes several."""
        vectors = FAMILIES[self.family].vectors
        if "class token and the mean" in self.head:
            return ""
        vectors_of = {"on the class token": "token", "attention pools": "map"}
        vectors_of |= {"mean of the patches": "mean"}
        return next((name for words, name in vectors_of.items() if words in self.head), vectors[0])

    @property
    def is_possible(self) -> bool:
        """Whether there is a network with this head that is saved in this way."""
        vectors = FAMILIES[self.family].vectors
        if self.family not in WAYS[self.way].of:
            return False
        if "class token and the mean" in self.head:
            return "token" in vectors
        if "last map" in self.head:
            return vectors == (OF_MAP,)
        return self.vector in vectors

    @property
    def outcome(self) -> Outcome:
        """The outcome: the checkpoint is read, the user is asked for `global_pool`, or it is
        refused."""
        if self.head not in LINEAR_HEADS:
            return "refused"
        if not self.vector:
            # CLIP normalizes the class token alone: a head may take it before or after the norm.
            return "refused" if self.family == "CLIP" else "read"
        several = len(FAMILIES[self.family].vectors) > 1 or "convolution" in self.head
        return "asked" if several and not self.told else "read"


POOLS = {"token": "token", "mean": "avg", "map": "map"}
"""timm's names of the vectors."""


def save(case: Case, folder: Path) -> tuple[Path, NDArray[np.float32], NDArray[np.float32]]:
    """Write a case's checkpoint. Return its path, a picture, and PyTorch's logits of it."""
    family, way = FAMILIES[case.family], WAYS[case.way]
    network = family.network()
    torch.manual_seed(3)
    head = seeded(HEADS[case.head](family, case.name))
    side = family.side
    picture = torch.randn((1, 3, side, side), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        logits = head(Features.of(family, network, picture))
    checkpoint = folder / "own"
    checkpoint.mkdir()
    state = _within(way.network, way.tensors(network, folder))
    state |= _within(way.head, head.state_dict())
    torch.save(way.content(state), checkpoint / "last.pth")
    network.config.save_pretrained(checkpoint)
    if case.told:
        path = checkpoint / "config.json"
        pool = POOLS.get(case.vector, "avg")
        path.write_text(json.dumps({**json.loads(path.read_text()), "global_pool": pool}))
    return checkpoint / "last.pth", picture[0].numpy(), logits[0].numpy()


def cases() -> list[Case]:
    """Return all possible cases, each with one name of a head."""
    candidates = (
        Case(family, way, head, NAMES[(number + column + row) % len(NAMES)], told)
        for number, family in enumerate(FAMILIES)
        for column, way in enumerate(WAYS)
        for row, head in enumerate(HEADS)
        for told in (True, False)
    )
    return [case for case in candidates if case.is_possible]


WORDS = {
    "read": "read",
    "asked": "asked for `global_pool`, then read",
    "refused": "refused",
}


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the head, the networks and the outcome in words, over all ways of saving."""
    without_pool = [case for case in cases() if not case.told]
    for head in HEADS:
        families: dict[str, list[str]] = {}
        for family in FAMILIES:
            outcomes = {c.outcome for c in without_pool if (c.head, c.family) == (head, family)}
            for outcome in sorted(outcomes):
                families.setdefault(WORDS[outcome], []).append(family)
        for words, names in families.items():
            yield head, _listed(names), words


def _listed(families: Sequence[str]) -> str:
    return "all" if len(families) == len(FAMILIES) else ", ".join(families)


def page() -> str:
    """Return the page with its tables."""
    parts = {
        "heads": table(("head", "on", "what happens"), rows(), 3),
        "ways": table(
            ("way of saving", "networks"),
            ((way.words, _listed(way.of)) for way in WAYS.values()),
            2,
        ),
        "forms": table(("what a library saved",), ((words,) for words in OWN), 1),
        "options": table(("option", "read", "refused"), option_rows(), 3),
        "architectures": table(("what happens", "architectures"), architecture_rows(), 2),
    }
    text = PAGE.read_text()
    for name, lines in parts.items():
        text = with_part(text, name, lines)
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
