"""An exported file against its model in JAX once more."""

from functools import partial
from pathlib import Path

import numpy as np

from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.locate import find_named, locate
from zoo.architectures.builder import abstract, output_choices
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import read_feed_sides
from zoo.artifacts.folder_check import Finding, NumbersCheck, Residuals, residuals
from zoo.artifacts.read import stated_entry
from zoo.artifacts.schema import Manifest, Variant
from zoo.artifacts.words import worst_of
from zoo.checkpoints.custom import own_entry
from zoo.checkpoints.load import open_weights
from zoo.checkpoints.source import Choice, GivenCheckpoint, SeededWeights, chosen_weights
from zoo.common import runtime
from zoo.common.errors import BadFile, first_line
from zoo.export.audit.golden_check import Compare, finding
from zoo.export.request import Signature
from zoo.export.verify import Sample, limit_for, reference, verify_file


def compare_with_jax(
    file: Path, manifest: Manifest, weights: str | Choice | None, provider: str, progress: Progress
) -> Compare:
    """The comparison with the model, which is run on the photograph again.

    **Raises** `BadFile` if the weights are not those that the file was made from, or what finding
    and reading them raises.
    """
    if manifest.weights.kind == "own" and weights is None:
        made = manifest.only
        detail = f"the model is the user's own; when it was exported: {worst_of(made)}. To compare "
        detail += f"it again, name its checkpoint with {parameter('weights')}"
        return skip(made.passed or made.verification is None, detail)
    entry = stated_entry(manifest)
    signature = stated_signature(manifest, entry)
    entry, choice = own_entry(entry, read_choice(weights, manifest, entry, progress))
    loaded = open_weights(choice, entry, progress)
    here, recorded = loaded.weights.provenance, manifest.weights
    if (here.seed, here.sha256) != (recorded.seed, recorded.sha256):
        raise BadFile(
            "the file was made from other weights "
            f"({recorded.name or recorded.seed or recorded.kind}): name those with "
            f"{parameter('weights')}."
        )
    progress.stage("running the model in JAX")
    samples = reference(entry, abstract(loaded.config), loaded.weights.arrays, signature)

    def compare(live: runtime.Session, variant: Variant) -> NumbersCheck:
        limit = limit_for(variant.precision, recorded.kind, entry.config)
        try:
            judged = finding("JAX", verify_file(file, samples, variant.precision, provider, limit))
        except runtime.ERRORS as error:
            return NumbersCheck(Finding("JAX", False, first_line(error)))
        by_patch = partial(first_residuals, live, samples[0], entry)
        return NumbersCheck(*judged, by_patch if entry.config.takes_only_pixels else None)

    return compare


def first_residuals(live: runtime.Session, sample: Sample, entry: ModelInfo) -> Residuals:
    """Where a file differs from JAX on the first photograph."""
    expected = {name: np.asarray(value) for name, value in sample.outputs.items()}
    got = dict(zip(expected, live.run([*expected], sample.fed), strict=True))
    stride = entry.config.stride
    sides = read_feed_sides(sample.taken, sample.inputs)  # of the network, not of images in 8 bits
    return residuals((sides["height"] // stride, sides["width"] // stride), got, expected)


def skip(passed: bool, detail: str) -> Compare:
    """No comparison, and why."""
    return lambda live, variant: NumbersCheck(Finding("JAX", passed, detail))


def stated_signature(manifest: Manifest, entry: ModelInfo) -> Signature:
    """Signature of a file: what it takes and gives. **Raises** `BadFile` if its model cannot do
    that."""
    inputs = manifest.only.inputs
    batch = inputs[0].shape[0] if inputs and inputs[0].shape else 0
    if (
        batch == 0
        or any(side % entry.config.stride for side in manifest.size or ())
        or any(not 1 <= layer <= entry.config.num_hidden_states for layer in manifest.layers)
        or (
            manifest.outputs
            and not {*manifest.outputs} <= {*output_choices(entry.config, manifest.layers)}
        )
    ):
        raise BadFile(
            f"the manifest describes no export of {manifest.model} (size {manifest.size}, layers "
            f"{list(manifest.layers)}, outputs {list(manifest.outputs)}, batch {batch}): export "
            "the model again."
        )
    return Signature(
        manifest.size,
        batch if isinstance(batch, int) else None,
        manifest.layers,
        manifest.reshape,
        manifest.input,
        manifest.outputs,
    )


def read_choice(
    named: str | Choice | None, manifest: Manifest, entry: ModelInfo, listener: Progress
) -> Choice:
    """The weights that were named, by default those that the file was made from."""
    if named is not None:
        chosen = chosen_weights(named)
        return (
            GivenCheckpoint(locate(entry.published_files, listener).path)
            if chosen == "auto"
            else chosen
        )
    weights = manifest.weights
    if weights.seed is not None:
        return SeededWeights(weights.seed)
    if weights.name is None:
        raise BadFile(
            f"the manifest names no checkpoint: name the weights with {parameter('weights')}."
        )
    folder = Path(weights.folder or "").name
    found = find_named(str(Path(folder, weights.name)), entry.published_files)
    if weights.adapter is None:
        return GivenCheckpoint(found)
    return GivenCheckpoint(
        find_named(Path(weights.adapter).name, entry.published_files), base=found
    )
