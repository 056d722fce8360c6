"""What happens with checkpoints of one's own, by network, way of saving and head; and the table of
that in `docs/how-to/own-checkpoints.md`, which `python -m tests.fine_tuned` writes.

`tests/zoo/checkpoints/test_fine_tuned.py` holds each row to what the package does.
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
"""What people call a head."""


def _by_meta(network: Any, folder: Path) -> State:
    """Return the tensors of a network in Meta's names."""
    network.save_pretrained(folder / "theirs")
    convert_file(GivenCheckpoint(folder / "theirs"), folder / "meta.pth", None, False, Quiet())
    return dict(torch.load(folder / "meta.pth"))


def _in_memory(network: Any, folder: Path) -> State:
    """Return the tensors of a network in the names that it has in memory."""
    return dict(network.state_dict())


def _within(prefix: str, state: State) -> State:
    return {prefix + name: value for name, value in state.items()}


@dataclass(frozen=True)
class Way:
    """A way of saving: what stands before the names of the network and of the head, which tensors
    the network has, and what the file holds besides.

    `of` are the networks that are saved so, all by default. The rotary periods of those that it
    `rounds` are in bfloat16.
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
    """A network under a head, and how it is saved; `told` says whether `global_pool` is in the
    config.json beside it."""

    family: str
    way: str
    head: str
    name: str
    told: bool

    def __str__(self) -> str:
        told = "told" if self.told else "not told"
        return f"{self.family}, {self.way}, {self.head} ({self.name}), {told}"

    @property
    def vector(self) -> str:
        """The vector that the head takes; empty where it takes several."""
        vectors = FAMILIES[self.family].vectors
        if "class token and the mean" in self.head:
            return ""
        named = {"on the class token": "token", "attention pools": "map"}
        named |= {"mean of the patches": "mean"}
        return next((name for words, name in named.items() if words in self.head), vectors[0])

    @property
    def is_possible(self) -> bool:
        """Whether there is such a network."""
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
        """What happens with it."""
        if self.head not in LINEAR_HEADS:
            return "refused"
        if not self.vector:
            # CLIP's final norm is of the class token alone, and may be meant or not.
            return "refused" if self.family == "CLIP" else "read"
        several = len(FAMILIES[self.family].vectors) > 1 or "convolution" in self.head
        return "asked" if several and not self.told else "read"


POOLS = {"token": "token", "mean": "avg", "map": "map"}
"""timm's words for vectors."""


def save(case: Case, folder: Path) -> tuple[Path, NDArray[np.float32], NDArray[np.float32]]:
    """Write a case's checkpoint. Return its path, a picture, and PyTorch's logits of it."""
    family, way = FAMILIES[case.family], WAYS[case.way]
    network = family.network()
    torch.manual_seed(3)
    head = seeded(HEADS[case.head](family, case.name))
    side = family.side
    picture = torch.randn((1, 3, side, side), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        want = head(Features.of(family, network, picture))
    own = folder / "own"
    own.mkdir()
    state = _within(way.network, way.tensors(network, folder))
    state |= _within(way.head, head.state_dict())
    torch.save(way.content(state), own / "last.pth")
    network.config.save_pretrained(own)
    if case.told:
        path = own / "config.json"
        pool = POOLS.get(case.vector, "avg")
        path.write_text(json.dumps({**json.loads(path.read_text()), "global_pool": pool}))
    return own / "last.pth", picture[0].numpy(), want[0].numpy()


def cases() -> list[Case]:
    """Return all cases that there are, each with one name of a head."""
    found = (
        Case(family, way, head, NAMES[(number + place + row) % len(NAMES)], told)
        for number, family in enumerate(FAMILIES)
        for place, way in enumerate(WAYS)
        for row, head in enumerate(HEADS)
        for told in (True, False)
    )
    return [case for case in found if case.is_possible]


WORDS = {
    "read": "read",
    "asked": "asked for `global_pool`, then read",
    "refused": "refused",
}


def rows() -> Iterator[tuple[str, ...]]:
    """Yield what happens by head and network, of all ways of saving."""
    untold = [case for case in cases() if not case.told]
    for head in HEADS:
        families: dict[str, list[str]] = {}
        for family in FAMILIES:
            outcomes = {c.outcome for c in untold if (c.head, c.family) == (head, family)}
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
