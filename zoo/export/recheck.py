"""`zoo verify FILE`: is an exported file still what its manifest says, and still right?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights import Weights
from weights.progress import Progress
from weights.sources.locate import find_named
from zoo import runtime
from zoo.artifacts.audit.findings import FileReport
from zoo.artifacts.audit.onnx_file import check_fused, check_model, elsewhere, read_graph
from zoo.artifacts.audit.onnx_file import load as open_session
from zoo.checkpoints.choice import Choice, Seed, read_weights
from zoo.checkpoints.load import find, load, published
from zoo.errors import BadFile
from zoo.export.precision import LIMITS
from zoo.export.request import Input, Precision, Signature
from zoo.export.verify import Verification, reference, verify
from zoo.files.staging import manifest_path
from zoo.manifest import describe as manifest
from zoo.models.build import abstract
from zoo.registry.entry import ModelInfo
from zoo.registry.lookup import info


@dataclass(frozen=True)
class Record:
    """What a check needs from a manifest."""

    entry: ModelInfo
    signature: Signature
    weights: Mapping[str, Any]
    digests: Mapping[str, str]
    precision: Precision
    fused: Mapping[str, int]


def read_record(path: Path) -> Record:
    """**Raises** `BadFile` if the manifest is missing, damaged or somebody else's."""
    content = manifest.read(path)
    try:
        return Record(
            entry=info(content["model"]),
            signature=_signature(content),
            weights=dict(content["weights"]),
            digests={file["name"]: file["sha256"] for file in content["files"]},
            precision=_precision(content),
            fused={op: int(count) for op, count in content["fused"].items()},
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is damaged ({error!r}): export the model again.") from error


def _precision(content: Mapping[str, Any]) -> Precision:
    for known in LIMITS:
        if content["precision"] == known:
            return known
    raise ValueError(f"precision {content['precision']!r}")


def _signature(content: Mapping[str, Any]) -> Signature:
    batch, *sides = content["inputs"][0]["shape"]
    # Images have any size; what they are resized to is part of the preprocessing.
    input: Input = "uint8" if content["input"] == "uint8" else "float32"
    size = content["preprocessing"]["size"] if input == "uint8" else sides[1:]
    return Signature(
        size=None if size[0] == "height" else (int(size[0]), int(size[1])),
        batch=batch if isinstance(batch, int) else None,
        layers=tuple(map(int, content["layers"])),
        as_maps=bool(content["reshape"]),
        input=input,
    )


def check_digests(file: Path, record: Record) -> None:
    """Refuse files that are not those the manifest describes."""
    if file.name not in record.digests:
        raise BadFile(
            f"the manifest of {file} describes {', '.join(record.digests)}: "
            "keep the names that export gave."
        )
    for name, digest in record.digests.items():
        path = file.with_name(name)
        if not path.is_file():
            raise BadFile(f"{path} is missing: export the model again.")
        if manifest.fingerprint(path)["sha256"] != digest:
            raise BadFile(f"{path} has changed since it was exported: export the model again.")


def read_choice(option: str | None, record: Record, listener: Progress) -> Choice:
    """The weights that the option names, by default those that the file was made from."""
    if option is not None:
        chosen = read_weights(option)
        return find(record.entry, listener).path if chosen == "auto" else chosen
    if record.weights["kind"] == "random":
        return Seed(record.weights["seed"])
    return find_named(record.weights["name"], published(record.entry))


def check_weights(weights: Weights, record: Record) -> None:
    """Refuse weights that the file was not made from."""
    found = weights.provenance
    if (found.seed, found.sha256) != (record.weights.get("seed"), record.weights.get("sha256")):
        raise BadFile(
            f"the file was made from other weights ({dict(record.weights)}): name those with "
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
    record = read_record(manifest_path(file))
    check_digests(file, record)
    choice = read_choice(weights_option, record, progress)
    loaded = load(choice, record.entry, progress)
    check_weights(loaded.weights, record)
    model = abstract(loaded.config)
    samples = reference(record.entry, model, loaded.weights.arrays, record.signature)
    verification = verify(file, samples, record.precision, provider)
    return Rechecked(verification, inspect(file, record, provider))


def inspect(file: Path, record: Record, provider: str) -> FileReport:
    """What a file consists of, and which provider runs what of it."""
    sidecars = [name for name in record.digests if name != file.name]
    readable, model = read_graph(file, sidecars)
    findings = [readable, check_model(file)]
    if model is not None:
        findings.append(check_fused(model, record.fused))
    loaded, live = open_session(file, record.precision, provider)
    findings.append(loaded)
    if live is None:
        return FileReport(file.stem, file.name, findings)
    fallback, others = elsewhere(live, provider)
    return FileReport(file.stem, file.name, [*findings, fallback], (), others)
