"""`zoo report --providers`: files of the zoo in every execution provider of an installation.

Each file runs in a process of its own, so that a provider that ends it has a line as well.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from converter.errors import CheckError
from converter.model.verdict import compare
from converter.opsets import DEFAULT_TARGET
from weights.progress import Progress
from zoo.artifacts.choices import Precision, Target
from zoo.artifacts.read import read_folder_manifest, to_text
from zoo.checkpoints.source import Choice, Seed
from zoo.common import runtime
from zoo.common.errors import printable_line
from zoo.common.fields import Count, Line, Model, Name, Text
from zoo.common.golden_file import read_golden
from zoo.common.processes import run_program
from zoo.common.staging import locked_output, replacing, write_text
from zoo.export.assemble.extras import GOLDEN
from zoo.export.assemble.folder import build_folder
from zoo.export.assemble.plan import FolderPlan, read_variants
from zoo.export.describe import tools
from zoo.export.timing.machine import machine
from zoo.report.accuracy import OPEN

USUAL_CHOICES: Mapping[str, Choice] = {
    "vit_digits": "auto",
    "dinov3_vits16": Seed(0),
    "dinov3_convnext_tiny": Seed(0),
}
"""A network with trained weights, and two of the size of real ones. Others have random ones."""

Results: TypeAlias = dict[str, NDArray[Any]]

TARGETS: Mapping[str, Target] = {
    "TensorrtExecutionProvider": "tensorrt",
    "NvTensorRTRTXExecutionProvider": "tensorrt",
    "OpenVINOExecutionProvider": "openvino",
}
"""Providers whose runtime has files of its own: they run those beside the usual ones."""

PROVIDER_LIBRARIES = ("onnxruntime", "nvidia-", "tensorrt", "openvino", "torch")
"""How the distributions begin that bring a provider's libraries."""

REFERENCE_CHOICE = "fp32"
NOT_STARTED = "it does not start here: no device, or a library is missing"
INPUTS_FILE = "inputs.npz"
PROVIDER_PROGRAM = Path(__file__).with_name("run_in_provider.py")
FILE = "providers.json"


class Ran(Model):
    """Outcome of a file in a provider."""

    failed: Text | None = Field(default=None, description="What it said, if it did not run.")
    providers: tuple[Line, ...] = Field(default=(), description="What the session had.")
    nodes: dict[str, Count] = Field(default={}, description="Of each provider, where it is known.")
    load_ms: float | None = Field(default=None, description="Loading, with the first run.")
    run_ms: float | None = Field(default=None, description="The median of the runs after it.")
    against: Line | None = Field(default=None, description="The file, on the CPU.")
    max_rel: float | None = Field(
        default=None, description="The largest difference, divided by the output's largest value."
    )
    cosine: float | None = Field(default=None, description="The least of an output.")


class FileInProviders(Model):
    """One file in every provider."""

    model: Line = Field(description="Its name in the zoo.")
    file: Name = Field(description="The file's in its folder.")
    target: Line = Field(description="The runtime that it was written for.")
    precision: Precision = Field(description="Of weights and computations.")
    opset: Count = Field(description="Version of ONNX's operators.")
    outcomes: dict[str, Ran] = Field(description="By provider.")


class ProvidersReport(Model):
    """An installation of ONNX Runtime, and what it makes of the zoo's files."""

    format: Literal["jax-onnx-zoo providers"] = Field(description="What this is.")
    date: Line = Field(description="Of the measurement.")
    machine: Line = Field(description="Processor and system.")
    tools: dict[str, str] = Field(description="Versions of what had a part in it.")
    libraries: dict[str, str] = Field(description="Of ONNX Runtime, and what providers need.")
    build: Text = Field(description="How that ONNX Runtime was built.")
    providers: tuple[Line, ...] = Field(description="That it has, the preferred first.")
    devices: tuple[Text, ...] = Field(description="That it names.")
    files: tuple[FileInProviders, ...] = Field(description="All that were tried.")


@dataclass(frozen=True)
class ProvidersRequest:
    """Request: these variants of these models, in a folder."""

    models: Sequence[str]
    variants: tuple[str, ...]
    folder: Path


def report_providers(asked: ProvidersRequest, progress: Progress) -> ProvidersReport:
    """Build the files, run each in every provider, and write what became of them.

    **Raises** a `ZooError`.
    """
    there = runtime.available()
    files: list[FileInProviders] = []
    with locked_output(asked.folder, progress), TemporaryDirectory() as scratch:
        for model in asked.models:
            for target in dict.fromkeys(TARGETS.get(name, DEFAULT_TARGET) for name in there):
                folder = Path(scratch, model, target)
                own = [name for name in there if TARGETS.get(name, target) == target]
                files += _files_in(asked, model, target, folder, own, progress)
        report = ProvidersReport(
            format="jax-onnx-zoo providers",
            date=datetime.now(UTC).date().isoformat(),
            machine=machine(),
            tools=tools(),
            libraries=_libraries(),
            build=runtime.BUILD,
            providers=tuple(there),
            devices=tuple(runtime.devices()),
            files=tuple(files),
        )
        asked.folder.mkdir(parents=True, exist_ok=True)
        with replacing(asked.folder / FILE) as file:
            write_text(file, to_text(report))
    return report


def _files_in(
    asked: ProvidersRequest,
    model: str,
    target: Target,
    folder: Path,
    providers: Sequence[str],
    progress: Progress,
) -> Iterator[FileInProviders]:
    """Of each file of a model for a target, what became of it in providers."""
    variants, weights = read_variants(asked.variants, target), USUAL_CHOICES.get(model, Seed(0))
    plan = FolderPlan(
        model, folder, weights, OPEN, variants, target=target, keep_inexact=True, offline=True
    )
    build_folder(plan, progress)
    fed: dict[str, Any] = dict(read_golden(folder / GOLDEN).fed)
    np.savez(folder / INPUTS_FILE, **fed)
    first: Results | None = None
    for name, variant in read_folder_manifest(folder).variants.items():
        progress.stage(f"{model}, {name}: {len(providers)} providers")
        own, outcomes = None, dict[str, Ran]()
        for provider in dict.fromkeys((runtime.CPU, *providers)):
            outcome, results = _ran(folder, variant.file, provider)
            own, first = (results, first or results) if provider == runtime.CPU else (own, first)
            against = name if own else REFERENCE_CHOICE
            outcomes[provider] = _compared(outcome, results, own or first, against)
        yield FileInProviders(
            model=model,
            file=variant.file,
            target=target,
            precision=variant.precision,
            opset=variant.opset,
            outcomes=outcomes,
        )


def _ran(folder: Path, file: str, provider: str) -> tuple[Ran, Results | None]:
    """Run one file in one provider, in a process of its own."""
    outputs = folder / "outputs.npz"
    paths = (str(folder / file), provider, str(folder / INPUTS_FILE), str(outputs))
    done = run_program([sys.executable, "-P", str(PROVIDER_PROGRAM), *paths], folder)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return Ran(failed=printable_line(lines[-1])), None
    record = json.loads(done.stdout)
    if provider not in record["providers"]:
        return Ran(failed=NOT_STARTED), None
    with np.load(outputs) as results:
        arrays: Results = dict(results)
    return (
        Ran(
            providers=tuple(record["providers"]),
            nodes=record["nodes"],
            load_ms=1000 * record["load"],
            run_ms=1000 * record["run"],
        ),
        arrays,
    )


def _compared(outcome: Ran, got: Results | None, expected: Results | None, against: str) -> Ran:
    """With the largest errors of what ran, against the CPU's."""
    if got is None or expected is None:
        return outcome
    try:
        errors = [compare(array, expected[name]) for name, array in got.items()]
    except CheckError as error:
        return Ran(failed=str(error))
    worst, least = (
        max(each.max_rel for each in errors),
        min(each.cosine for each in errors),
    )
    finite = math.isfinite(worst)
    errors_by_kind = {"max_rel": worst if finite else None, "cosine": least if finite else None}
    return outcome.model_copy(update={"against": against, **errors_by_kind})


def _libraries() -> dict[str, str]:
    """Distributions of ONNX Runtime, and of what its providers load."""
    versions = {each.name: each.version for each in distributions()}
    return {
        name: versions[name] for name in sorted(versions) if name.startswith(PROVIDER_LIBRARIES)
    }
