"""Outcomes of every setting of transformers' and timm's classes, for other values of it.

The zoo reads those classes. `golden/setting_outcomes.json` has the outcomes, and `docs/build.py`
shows them as a table.

A library builds a small seeded network with the changed settings and saves it. The zoo then reads a
network that computes the same outputs, or refuses to read one. If the tensors are the same, so that
only the setting makes the difference, the refusal must name the setting.

    PYTHONPATH=. python -m tests.zoo.checkpoints.setting_outcomes

writes the outcomes in about half an hour. With names of classes as arguments, only their outcomes
are written.
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

from tests.generated import record
from tests.references import Arrays, timm_settings
from tests.references.settings import (
    CLASSES,
    Change,
    apply_change,
    base_network,
    changes,
    numpy_inputs,
    run_network,
)
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
"""Limit of a difference, relative to an output's largest number. Rounding is at most 2e-5 here."""

UNREAD, UNCHANGED, FOLLOWED, REFUSED = "impossible", "without effect", "followed", "refused"
"""Outcomes.

UNREAD: the library builds no network with the value. UNCHANGED: no output changes. FOLLOWED: the
zoo's network computes the library's outputs. REFUSED: the zoo reads no network.
"""


class Refused(Exception):
    """The zoo reads no network with these settings."""


class Wrong(AssertionError):
    """The zoo's network computes other outputs, or its refusal does not name the setting."""


def read(folder: Path) -> LoadedWeights:
    """Return the weights that the zoo reads from a folder. **Raises** `Refused`."""
    try:
        entry, choice = find_entry(None, GivenCheckpoint(folder))
        with open_weight_source(choice, entry, Quiet()) as source:
            return load_without_digest(source, entry)
    except (WeightsError, ZooError) as error:
        raise Refused(str(error)) from error


COMPUTED: dict[Any, Arrays] = {}
"""Outputs by configuration, tensors and shapes of inputs. Most settings change none of these."""


def computed(folder: Path, tensors: str, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Return the outputs of the zoo's network for a folder. **Raises** `Refused`.

    `tensors` identifies the tensors in the folder. `inputs` have no batch axis.
    """
    loaded = read(folder)
    shapes = tuple((name, value.shape) for name, value in inputs.items())
    key = (loaded.config, tensors, shapes)
    if key not in COMPUTED:
        model = bind(abstract(loaded.config), loaded.weights.arrays)
        values = [jnp.asarray(inputs[name]) for name in loaded.config.input_names]
        compares = loaded.config.task.name == "zero-shot-image-classification"
        result = model(*(value[None] if compares else value for value in values))
        items = result._asdict().items()
        COMPUTED[key] = {name: np.asarray(v) for name, v in items if isinstance(v, jax.Array)}
    return COMPUTED[key]


OWN_LAYOUT = {"ConvNextModel": {"last_hidden_state"}, "ConvNextV2Model": {"last_hidden_state"}}
"""Outputs of a class that have another layout than the zoo's.

They are maps before the last norm, where the zoo has rows of features.
"""

LEAST = 1e-2
"""The least scale of a comparison, because a cosine near 0 has the rounding error of one near 1."""


def distance(ours: Arrays, theirs: Arrays, kind: str = "") -> float:
    """Return the largest difference of common outputs, relative to an output's largest number.

    Return infinity if there are none, or if sizes differ. `kind` is the class of transformers.
    """
    both = [name for name in theirs.keys() - OWN_LAYOUT.get(kind, set()) if name in ours]
    if not both or any(ours[name].size != theirs[name].size for name in both):
        return np.inf
    return max(
        float(np.abs(ours[name].ravel() - theirs[name].ravel()).max())
        / max(float(np.abs(theirs[name]).max()), LEAST)
        for name in both
    )


def outcome(change: Change, folder: Path) -> str:
    """Return the outcome of a setting of transformers. **Raises** `Wrong`."""
    case, unchanged = run_network(change.kind, apply_change(change)), base_network(change.kind)
    if case is None:
        return UNREAD
    case.write(folder)
    same_tensors = case.digest == unchanged.digest
    changes_output = (
        not same_tensors or distance(case.outputs, unchanged.outputs, change.kind) > CLOSE
    )
    try:
        outputs = computed(folder, case.digest, numpy_inputs(change.kind, case))
    except Refused as error:
        _check_refusal(str(change), change.path[-1], same_tensors and changes_output, str(error))
        return REFUSED
    if (difference := distance(outputs, case.outputs, change.kind)) > CLOSE:
        raise Wrong(f"{change}: off by {difference:.1e} of the largest")
    return FOLLOWED if changes_output else UNCHANGED


def pooled_by_timm(architecture: str, outputs: Arrays) -> np.ndarray:
    """Return the vector that timm's network without classes would return.

    It is computed from the outputs of the zoo's network, which are rows of features.

    For a distilled DeiT it is the mean of both tokens. For DINOv3 it is the mean of the patches,
    which follow a class token and four registers.
    """
    if "distilled" in architecture:
        return outputs["last_hidden_state"][:2].mean(0)
    if "dinov3" in architecture:
        return outputs["last_hidden_state"][5:].mean(0)
    return outputs.get("pooler_output", outputs["last_hidden_state"])


def outcome_of_timm(case: TimmCase, folder: Path) -> str:
    """Return the outcome of an argument of timm. **Raises** `Wrong`."""
    unchanged = next(
        other_case
        for other_case in timm_settings.cases()
        if other_case.architecture == case.architecture
    )
    expected, unchanged_outputs = (
        {"logits": np.array(case.logits)},
        {"logits": np.array(unchanged.logits)},
    )
    if not np.isfinite(expected["logits"]).all():
        return UNREAD
    case.write(folder)
    same_shapes = case.shapes == unchanged.shapes
    changes_output = not same_shapes or distance(expected, unchanged_outputs) > CLOSE
    try:
        outputs = computed(folder, str(case.shapes), {"pixel_values": case.picture})
    except Refused as error:
        _check_refusal(str(case), case.argument, same_shapes and changes_output, str(error))
        return REFUSED
    logits = (
        outputs["logits"] if "logits" in outputs else pooled_by_timm(case.architecture, outputs)
    )
    if (difference := distance({"logits": logits.ravel()[: len(case.logits)]}, expected)) > CLOSE:
        raise Wrong(f"{case}: off by {difference:.1e} of the largest")
    return FOLLOWED if changes_output else UNCHANGED


def _check_refusal(case: str, setting: str, must_name: bool, refusal: str) -> None:
    """Raise `Wrong` if a refusal that must name the setting does not."""
    # timm writes the size of pictures to `input_size`, too.
    name_in_file = "input_size" if setting == "img_size" else setting
    if must_name and name_in_file not in refusal:
        raise Wrong(f"{case}: {refusal}")


Outcomes = dict[str, dict[str, list[str]]]
"""Outcomes of the values of each setting, by class and setting."""


def tried(name: str) -> Iterator[tuple[str, str | Wrong]]:
    """Yield the settings of a class of transformers or an architecture of timm, with outcomes."""
    with TemporaryDirectory() as root:
        if name in CLASSES:
            for number, change in enumerate(changes(name)):
                yield change.name, _judged(outcome, change, Path(root) / str(number))
        else:
            cases = (case for case in timm_settings.cases() if case.architecture == name)
            for number, case in enumerate(case for case in cases if case.argument):
                yield case.argument, _judged(outcome_of_timm, case, Path(root) / str(number))


def _judged(judge: Any, case: Any, folder: Path) -> str | Wrong:
    try:
        return judge(case, folder)
    except Wrong as error:
        return error


def outcomes(name: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the outcomes by setting, and messages about wrong ones."""
    found_outcomes: dict[str, set[str]] = {}
    messages = []
    for setting, result in tried(name):
        if isinstance(result, Wrong):
            messages.append(str(result))
        elif result != UNREAD:
            found_outcomes.setdefault(setting, set()).add(result)
    return {setting: sorted(words) for setting, words in found_outcomes.items()}, messages


def to_text(stored: Outcomes) -> str:
    """Return JSON with a line for each setting."""
    classes = []
    for name, settings in stored.items():
        lines = (
            f" {json.dumps(setting)}: {json.dumps(words)}" for setting, words in settings.items()
        )
        classes.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(classes) + "\n}\n"


def main(names: list[str]) -> None:
    stored: Outcomes = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or [*CLASSES, *timm_settings.BASES]:
        stored[name], wrong = outcomes(name)
        print(name, len(stored[name]), *wrong, sep="\n  ", flush=True)
        FILE.write_text(to_text(stored))
    if not names:
        record("tests/golden/setting_outcomes.json")


if __name__ == "__main__":
    main(sys.argv[1:])
