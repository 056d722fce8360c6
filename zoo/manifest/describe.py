"""The record beside every exported file: what it is, where it comes from, how it was checked.

It holds no time and no folder, so the same export gives the same bytes anywhere.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import weights
import zoo
from weights.files import sha256
from zoo.errors import BadFile
from zoo.export.request import Request, Signature
from zoo.files.staging import sidecar_path
from zoo.registry.entry import ModelInfo

if TYPE_CHECKING:
    import onnx_ir as ir

    from zoo.export.make import Made

Manifest = dict[str, Any]

FORMAT = "jax-onnx-zoo manifest"
LIBRARIES = ("jax", "equinox", "numpy", "onnx-ir", "onnxruntime")


def describe(
    request: Request,
    file: Path,
    made: Made,
    provenance: weights.Provenance,
) -> Manifest:
    """The manifest of one exported file."""
    entry, signature = request.model, request.signature
    return {
        "format": FORMAT,
        "format_version": 1,
        **about(entry),
        "files": [fingerprint(path) for path in (file, sidecar_path(file)) if path.exists()],
        **structure(made),
        "attention_layout": request.layout,
        "input": signature.input,
        "layers": list(signature.layers),
        "reshape": signature.as_maps,
        "sizes": sizes(entry, signature),
        "preprocessing": preprocessing(entry, signature),
        "weights": origin(provenance, entry),
        "tools": tools(),
    }


def about(entry: ModelInfo) -> Manifest:
    """What does not depend on how a model was exported."""
    return {
        "model": entry.name,
        "aliases": list(entry.aliases),
        "source": entry.source,
        "licence": asdict(entry.licence),
        "parameters": entry.parameters,
    }


def structure(made: Made) -> Manifest:
    """What a file takes, gives and consists of, and how it was checked."""
    model, report = made.model, made.report
    return {
        "opset": model.opset_imports[""],
        "ir_version": model.ir_version,
        "precision": made.precision,
        "inputs": [_signature(value) for value in model.graph.inputs],
        "outputs": [_signature(value) for value in model.graph.outputs],
        "nodes": report.nodes,
        "histogram": dict(sorted(report.histogram.items())),
        "fused": {name: count for name, count in sorted(report.fused.items()) if count},
        "near_misses": [
            {"pattern": miss.pattern, "reason": miss.reason} for miss in report.near_misses
        ],
        "verification": made.verification and asdict(made.verification),
    }


def preprocessing(entry: ModelInfo, signature: Signature) -> Manifest:
    """From photographs to the input."""
    how = entry.preprocessing.at(signature.size or entry.preprocessing.size)
    return {**asdict(how), "size": list(how.size), "in_file": signature.input == "uint8"}


def tools() -> dict[str, str]:
    """Versions of what had a part in it."""
    return {
        "jax-onnx-zoo": zoo.__version__,
        "python": platform.python_version(),
        **{library: version(library) for library in LIBRARIES},
    }


def fingerprint(path: Path) -> dict[str, str | int]:
    """Name, size and digest of a file."""
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}


def sizes(entry: ModelInfo, signature: Signature) -> str:
    """What happens at which image size, for who reads the manifest."""
    if signature.input == "uint8":
        return "any height and width: the file resizes as its preprocessing says"
    if signature.size is not None:
        return "fixed: ONNX Runtime refuses another height or width"
    stride = entry.config.stride
    return (
        f"any height and width from {stride} on; multiples of {stride} are used whole, of others "
        "the rest at the right and bottom edge is ignored"
    )


def _signature(value: ir.Value) -> dict[str, object]:
    dims = [] if value.shape is None else [_dim(dim) for dim in value.shape]
    dtype = None if value.dtype is None else value.dtype.numpy().name
    return {"name": value.name, "dtype": dtype, "shape": dims}


def _dim(dim: int | ir.SymbolicDim) -> int | str | None:
    return dim if isinstance(dim, int) else dim.value


def origin(provenance: weights.Provenance, entry: ModelInfo) -> dict[str, object]:
    """Where the weights come from, and whether that is the published file."""
    known = {key: value for key, value in asdict(provenance).items() if value is not None}
    if provenance.sha256 is not None and entry.digest:
        # The beginning of it where the published file's name says no more.
        known["is_published_file"] = provenance.sha256.startswith(entry.digest)
        if entry.embedded:
            known["is_embedded_file"] = known["is_published_file"]
    return known


def to_text(manifest: Manifest | list[Manifest]) -> str:
    """JSON as it is written to files and to stdout."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def read(path: Path) -> Mapping[str, Any]:
    """The manifest at `path`. **Raises** `BadFile` if it is missing or something else."""
    if not path.is_file():
        raise BadFile(f"{path} is missing: `verify` needs the manifest that export wrote.")
    try:
        manifest: object = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise BadFile(f"{path} is not a manifest ({error}): export the model again.") from error
    match manifest:
        case {"format": str(format)} if format == FORMAT:
            return cast(Manifest, manifest)
        case _:
            raise BadFile(f"{path} is not a manifest that export wrote: export the model again.")
