"""`zoo verify FILE`: is an exported file still what its manifest says, and still right?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weights import Weights
from weights.progress import Progress
from weights.sources.locate import find_named
from zoo import runtime
from zoo.artifacts.audit.findings import FileReport
from zoo.artifacts.audit.onnx_file import check_fused, check_model, elsewhere, read_graph
from zoo.artifacts.audit.onnx_file import load as open_session
from zoo.checkpoints.choice import Choice, Seed, read_weights
from zoo.checkpoints.load import find, load
from zoo.errors import BadFile
from zoo.export.request import Signature
from zoo.export.verify import reference, verify
from zoo.files.staging import manifest_path
from zoo.manifest.read import read
from zoo.manifest.schema import File, Manifest, Variant, Verification
from zoo.models.build import abstract
from zoo.registry.entry import ModelInfo
from zoo.registry.lookup import info


def find_variant(file: Path, manifest: Manifest) -> Variant:
    """What the manifest says of a file. **Raises** `BadFile` unless that and its tensors are it."""
    variant = next((each for each in manifest.variants.values() if each.file == file.name), None)
    if variant is None:
        raise BadFile(
            f"the manifest of {file} describes {', '.join(manifest.listed)}: "
            "keep the names that export gave."
        )
    for name in variant.files:
        path = file.with_name(name)
        if not path.is_file():
            raise BadFile(f"{path} is missing: export the model again.")
        if File.at(path) != manifest.listed[name]:
            raise BadFile(f"{path} has changed since it was exported: export the model again.")
    return variant


def read_signature(manifest: Manifest, variant: Variant, entry: ModelInfo) -> Signature:
    """What a file takes and gives. **Raises** `BadFile` if its model cannot do that."""
    batch = variant.inputs[0].shape[0] if variant.inputs and variant.inputs[0].shape else 0
    sides = manifest.size or ()
    if (
        batch == 0
        or any(side % entry.config.stride for side in sides)
        or any(not 1 <= layer <= entry.config.layers for layer in manifest.layers)
    ):
        raise BadFile(
            f"the manifest describes no export of {manifest.model} (size {manifest.size}, layers "
            f"{list(manifest.layers)}, batch {batch}): export the model again."
        )
    return Signature(
        size=manifest.size,
        batch=batch if isinstance(batch, int) else None,
        layers=manifest.layers,
        as_maps=manifest.reshape,
        input=manifest.input,
    )


def read_choice(
    option: str | None, manifest: Manifest, entry: ModelInfo, listener: Progress
) -> Choice:
    """The weights that the option names, by default those that the file was made from."""
    if option is not None:
        chosen = read_weights(option)
        return find(entry, listener).path if chosen == "auto" else chosen
    if manifest.weights.seed is not None:
        return Seed(manifest.weights.seed)
    if manifest.weights.name is None:
        raise BadFile("the manifest names no checkpoint: name the weights with `--weights`.")
    return find_named(manifest.weights.name, entry.places)


def check_weights(weights: Weights, manifest: Manifest) -> None:
    """Refuse weights that the file was not made from."""
    found, wanted = weights.provenance, manifest.weights
    if (found.seed, found.sha256) != (wanted.seed, wanted.sha256):
        raise BadFile(
            f"the file was made from other weights ({wanted.name or wanted.seed}): name those with "
            "`--weights`."
        )


@dataclass(frozen=True)
class Rechecked:
    """How far an exported file is from JAX, and what else was looked at."""

    verification: Verification
    report: FileReport

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return self.verification.passed and self.report.passed


def recheck(
    file: Path, weights_option: str | None, progress: Progress, provider: str = runtime.CPU
) -> Rechecked:
    """Check digests and graph, then run the file and its model on the photograph again."""
    runtime.check_provider(provider)
    manifest = read(manifest_path(file))
    variant = find_variant(file, manifest)
    entry = info(manifest.model)
    signature = read_signature(manifest, variant, entry)
    loaded = load(read_choice(weights_option, manifest, entry, progress), entry, progress)
    check_weights(loaded.weights, manifest)
    model = abstract(loaded.config)
    samples = reference(entry, model, loaded.weights.arrays, signature)
    verification = verify(file, samples, variant.precision, provider)
    return Rechecked(verification, inspect(file, variant, provider))


def inspect(file: Path, variant: Variant, provider: str) -> FileReport:
    """What a file consists of, and which provider runs what of it."""
    sidecars = [name for name in variant.files if name != file.name]
    readable, model = read_graph(file, sidecars)
    findings = [readable, check_model(file)]
    if model is not None:
        findings.append(check_fused(model, variant.fused))
    loaded, live = open_session(file, variant.precision, provider)
    findings.append(loaded)
    if live is None:
        return FileReport(file.stem, file.name, findings)
    fallback, others = elsewhere(live, provider)
    return FileReport(file.stem, file.name, [*findings, fallback], (), others)
