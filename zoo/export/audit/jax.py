"""Compare an exported file with its model in JAX once more."""

from functools import partial
from pathlib import Path

import numpy as np

from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.locate import find_file_or_folder, locate
from zoo.architectures.builder import abstract, output_choices
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import read_feed_sides
from zoo.artifacts.descriptions import describe_variant_error
from zoo.artifacts.folder_check import Finding, NumbersCheck, Residuals, compute_residuals
from zoo.artifacts.read import entry_of_manifest
from zoo.artifacts.schema import Manifest, Variant
from zoo.checkpoints.custom import find_model_in_checkpoint
from zoo.checkpoints.load import open_weights
from zoo.checkpoints.source import GivenCheckpoint, SeededWeights, WeightsChoice, resolve_weights
from zoo.common import runtime
from zoo.common.errors import BadFile, first_line
from zoo.export.audit.golden_check import CompareSession, to_finding
from zoo.export.request import Signature
from zoo.export.verify import Sample, choose_limit, make_samples, verify_file


def compare_with_jax(
    file: Path,
    manifest: Manifest,
    weights: str | WeightsChoice | None,
    provider: str,
    progress: Progress,
) -> CompareSession:
    """Run the model of an exported file in JAX on all samples, and return a function that compares
    the file with the results.

    The function opens sessions of `file` at every optimization level. The session that it takes is
    used for the residuals only. An error of ONNX Runtime becomes a failed finding.

    If the file was made from a user's own model and no weights are named, the returned function
    runs nothing and repeats the result in the manifest.

    **Arguments:**

    - `file`: the ONNX file.
    - `manifest`: its manifest.
    - `weights`: the weights that the file was made from, or None for those that the manifest names.
    - `provider`: execution provider of ONNX Runtime.
    - `progress`: reports progress.

    **Raises** `BadFile` if these are not the weights that the file was made from, and the errors of
    finding and loading them.
    """
    if manifest.weights.kind == "own" and weights is None:
        variant = manifest.only_variant
        detail = (
            "the model is the user's own; when it was exported: "
            f"{describe_variant_error(variant)}. To compare "
        )
        detail += f"it again, name its checkpoint with {parameter('weights')}"
        return skip_comparison(variant.passed or variant.verification is None, detail)
    entry = entry_of_manifest(manifest)
    signature = read_manifest_signature(manifest, entry)
    entry, choice = find_model_in_checkpoint(
        entry, choose_weights(weights, manifest, entry, progress)
    )
    loaded = open_weights(choice, entry, progress)
    provenance, recorded = loaded.weights.provenance, manifest.weights
    if (provenance.seed, provenance.sha256) != (recorded.seed, recorded.sha256):
        raise BadFile(
            "the file was made from other weights "
            f"({recorded.name or recorded.seed or recorded.kind}): name those with "
            f"{parameter('weights')}."
        )
    progress.stage("running the model in JAX")
    samples = make_samples(entry, abstract(loaded.config), loaded.weights.arrays, signature)

    def compare(session: runtime.Session, variant: Variant) -> NumbersCheck:
        """Compare a file with JAX. An error of ONNX Runtime becomes a failed finding."""
        limit = choose_limit(variant.precision, recorded.kind, entry.config)
        try:
            finding_and_verification = to_finding(
                "JAX", verify_file(file, samples, variant.precision, provider, limit)
            )
        except runtime.ERRORS as error:
            return NumbersCheck(Finding("JAX", False, first_line(error)))
        by_patch = partial(compute_first_residuals, session, samples[0], entry)
        return NumbersCheck(
            *finding_and_verification, by_patch if entry.config.takes_only_pixels else None
        )

    return compare


def compute_first_residuals(
    session: runtime.Session, sample: Sample, entry: ModelInfo
) -> Residuals:
    """Run a session on the first sample, and return its differences from JAX on the grid of
    patches."""
    expected = {name: np.asarray(value) for name, value in sample.outputs.items()}
    outputs = dict(zip(expected, session.run([*expected], sample.feeds), strict=True))
    stride = entry.config.stride
    # These are the sizes at the network, not those of images that the file resizes.
    network_sides = read_feed_sides(sample.network_inputs, sample.inputs)
    return compute_residuals(
        (network_sides["height"] // stride, network_sides["width"] // stride), outputs, expected
    )


def skip_comparison(passed: bool, detail: str) -> CompareSession:
    """Return a `CompareSession` function that runs nothing. Its finding is the given result
    (`passed`) with the given reason (`detail`)."""
    return lambda session, variant: NumbersCheck(Finding("JAX", passed, detail))


def read_manifest_signature(manifest: Manifest, entry: ModelInfo) -> Signature:
    """Return the inputs and outputs that a manifest states for an exported file.

    **Raises** `BadFile` if no export of the model can have them: the size is no multiple of the
    patch size, the model has no such layers or outputs, or there is no batch axis.
    """
    inputs = manifest.only_variant.inputs
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


def choose_weights(
    weights: str | WeightsChoice | None, manifest: Manifest, entry: ModelInfo, listener: Progress
) -> WeightsChoice:
    """Return the weights that the user names. If `weights` is None, return those that the manifest
    names: a seed, or a checkpoint that is searched for in the standard folders.

    For `auto` the published file of `entry` is found or downloaded, and returned as a checkpoint of
    the user.

    **Raises** `BadFile` if the manifest does not name a checkpoint, and a `WeightsError` if none is
    found.
    """
    if weights is not None:
        choice = resolve_weights(weights)
        return (
            GivenCheckpoint(locate(entry.published_files, listener).path)
            if choice == "auto"
            else choice
        )
    recorded = manifest.weights
    if recorded.seed is not None:
        return SeededWeights(recorded.seed)
    if recorded.name is None:
        raise BadFile(
            f"the manifest names no checkpoint: name the weights with {parameter('weights')}."
        )
    folder = Path(recorded.folder or "").name
    path = find_file_or_folder(str(Path(folder, recorded.name)), entry.published_files)
    if recorded.adapter is None:
        return GivenCheckpoint(path)
    return GivenCheckpoint(
        find_file_or_folder(Path(recorded.adapter).name, entry.published_files), base=path
    )
