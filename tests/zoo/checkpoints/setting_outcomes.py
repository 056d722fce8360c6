"""What becomes of every setting of the classes of transformers and timm that are read, at other
values, as `golden/setting_outcomes.json` has it. `docs/build.py` shows it as a table.

A library makes a small seeded network of the changed settings. The zoo then reads a network that
computes the same from what the library saves, or refuses it. Where the setting alone makes the
difference, because the tensors are the same, the sentence names it.

    PYTHONPATH=. python -m tests.zoo.checkpoints.setting_outcomes

writes the outcomes, and takes half an hour. With names of classes, it writes those of these alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.references import Arrays, timm_settings
from tests.references.settings import CLASSES, Change, base, changed, changes, inputs, made
from tests.references.timm_settings import TimmCase
from weights import bind
from weights.errors import WeightsError
from weights.progress import Quiet
from zoo.architectures.builder import abstract
from zoo.checkpoints.load import LoadedWeights, load_without_digest
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import GivenCheckpoint, open_weight_source
from zoo.common.errors import ZooError

GOLDEN = Path(__file__).parents[2] / "golden"
FILE = GOLDEN / "setting_outcomes.json"

CLOSE = 2e-4
"""Share of an output's largest number: rounding is at most 2e-5 of it in the networks here."""

UNREAD, UNCHANGED, FOLLOWED, REFUSED = "impossible", "without effect", "followed", "refused"
"""Outcomes: the library makes nothing of the value, it changes no output, the zoo's network
computes what the library's does, or it is refused."""


class Refused(Exception):
    """The zoo reads no network with these settings."""


class Wrong(AssertionError):
    """The zoo's network computes something else, or its refusal does not name the setting."""


def read(folder: Path) -> LoadedWeights:
    """What the zoo reads. **Raises** `Refused`."""
    try:
        entry, choice = find_entry(None, GivenCheckpoint(folder))
        with open_weight_source(choice, entry, Quiet()) as source:
            return load_without_digest(source, entry)
    except (WeightsError, ZooError) as error:
        raise Refused(str(error)) from error


COMPUTED: dict[Any, Arrays] = {}
"""Outputs by configuration, tensors and inputs: most settings leave all of them as they are."""


def computed(folder: Path, tensors: str, given: Mapping[str, np.ndarray]) -> Arrays:
    """What the zoo's network computes of inputs without a batch. **Raises** `Refused`."""
    loaded = read(folder)
    shapes = tuple((name, value.shape) for name, value in given.items())
    key = (loaded.config, tensors, shapes)
    if key not in COMPUTED:
        model = bind(abstract(loaded.config), loaded.weights.arrays)
        values = [jnp.asarray(given[name]) for name in loaded.config.input_names]
        compares = loaded.config.task.name == "zero-shot-image-classification"
        found = model(*(value[None] if compares else value for value in values))
        pairs = found._asdict().items()
        COMPUTED[key] = {name: np.asarray(v) for name, v in pairs if isinstance(v, jax.Array)}
    return COMPUTED[key]


OWN_LAYOUT = {"ConvNextModel": {"last_hidden_state"}, "ConvNextV2Model": {"last_hidden_state"}}
"""By class the outputs that are no rows of features there: a map in front of the last norm."""

LEAST = 1e-2
"""Numbers below are compared as if the largest were this: a cosine near 0 is rounded as at 1."""


def distance(ours: Arrays, theirs: Arrays, kind: str = "") -> float:
    """Return the largest difference of an output that both have, relative to its largest number."""
    both = [name for name in theirs.keys() - OWN_LAYOUT.get(kind, set()) if name in ours]
    if not both or any(ours[name].size != theirs[name].size for name in both):
        return np.inf
    return max(
        float(np.abs(ours[name].ravel() - theirs[name].ravel()).max())
        / max(float(np.abs(theirs[name]).max()), LEAST)
        for name in both
    )


def outcome(change: Change, folder: Path) -> str:
    """What becomes of a setting of transformers. **Raises** `Wrong`."""
    case, usual = made(change.kind, changed(change)), base(change.kind)
    if case is None:
        return UNREAD
    case.write(folder)
    same = case.digest == usual.digest
    alters = not same or distance(case.outputs, usual.outputs, change.kind) > CLOSE
    try:
        found = computed(folder, case.digest, inputs(change.kind, case))
    except Refused as error:
        _check_refusal(str(change), change.path[-1], same and alters, str(error))
        return REFUSED
    if (difference := distance(found, case.outputs, change.kind)) > CLOSE:
        raise Wrong(f"{change}: off by {difference:.1e} of the largest")
    return FOLLOWED if alters else UNCHANGED


def pooled_by_timm(architecture: str, outputs: Arrays) -> np.ndarray:
    """Return the vector that timm's network without classes returns, from rows of features.

    That of a distilled DeiT is the mean of both tokens, and that of DINOv3 the mean of the patches,
    which are behind a class token and four registers.
    """
    if "distilled" in architecture:
        return outputs["last_hidden_state"][:2].mean(0)
    if "dinov3" in architecture:
        return outputs["last_hidden_state"][5:].mean(0)
    return outputs.get("pooler_output", outputs["last_hidden_state"])


def outcome_of_timm(case: TimmCase, folder: Path) -> str:
    """What becomes of an argument of timm. **Raises** `Wrong`."""
    usual = next(each for each in timm_settings.cases() if each.architecture == case.architecture)
    want, before = {"logits": np.array(case.logits)}, {"logits": np.array(usual.logits)}
    if not np.isfinite(want["logits"]).all():
        return UNREAD
    case.write(folder)
    same = case.shapes == usual.shapes
    alters = not same or distance(want, before) > CLOSE
    try:
        found = computed(folder, str(case.shapes), {"pixel_values": case.picture})
    except Refused as error:
        _check_refusal(str(case), case.argument, same and alters, str(error))
        return REFUSED
    logits = found["logits"] if "logits" in found else pooled_by_timm(case.architecture, found)
    if (difference := distance({"logits": logits.ravel()[: len(case.logits)]}, want)) > CLOSE:
        raise Wrong(f"{case}: off by {difference:.1e} of the largest")
    return FOLLOWED if alters else UNCHANGED


def _check_refusal(what: str, setting: str, alone: bool, refusal: str) -> None:
    stated = "input_size" if setting == "img_size" else setting  # by which timm states it too
    if alone and stated not in refusal:
        raise Wrong(f"{what}: {refusal}")


Outcomes = dict[str, dict[str, list[str]]]
"""Outcomes of the values of each setting, by class and setting."""


def tried(name: str) -> Iterator[tuple[str, str | Wrong]]:
    """Settings of a class of transformers or an architecture of timm, each time with an outcome."""
    with TemporaryDirectory() as root:
        if name in CLASSES:
            for number, change in enumerate(changes(name)):
                yield change.name, _judged(outcome, change, Path(root) / str(number))
        else:
            of = (each for each in timm_settings.cases() if each.architecture == name)
            for number, case in enumerate(each for each in of if each.argument):
                yield case.argument, _judged(outcome_of_timm, case, Path(root) / str(number))


def _judged(judge: Any, case: Any, folder: Path) -> str | Wrong:
    try:
        return judge(case, folder)
    except Wrong as error:
        return error


def outcomes(name: str) -> tuple[dict[str, list[str]], list[str]]:
    """Outcomes by setting, and what is wrong."""
    found: dict[str, set[str]] = {}
    wrong = []
    for setting, result in tried(name):
        if isinstance(result, Wrong):
            wrong.append(str(result))
        elif result != UNREAD:
            found.setdefault(setting, set()).add(result)
    return {setting: sorted(words) for setting, words in found.items()}, wrong


def to_text(kept: Outcomes) -> str:
    """Return JSON with a line for each setting."""
    classes = []
    for name, of in kept.items():
        lines = (f" {json.dumps(setting)}: {json.dumps(words)}" for setting, words in of.items())
        classes.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(classes) + "\n}\n"


def main(names: list[str]) -> None:
    kept: Outcomes = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or [*CLASSES, *timm_settings.BASES]:
        kept[name], wrong = outcomes(name)
        print(name, len(kept[name]), *wrong, sep="\n  ", flush=True)
        FILE.write_text(to_text(kept))


if __name__ == "__main__":
    main(sys.argv[1:])
