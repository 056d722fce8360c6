"""Digests of exported files, with which a later export of the same request is compared.

    python -m tests.exports > tests/golden/exports.json

The bytes of a file depend on the versions of libraries. Those of integer files also depend on the
machine, because activations are measured on it. The record holds both. A change of the converter's
nodes or of a network's leaves changes the digests of the affected exports and of no others.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zoo
from tests.command import call_zoo
from tests.seeded import nano
from weights.progress import Quiet
from zoo.architectures.entry import ModelInfo
from zoo.export.request import Options, plan_files
from zoo.export.run import run_export
from zoo.export.timing.rounds import describe_machine

RECORD = Path(__file__).parent / "golden" / "exports.json"

LIBRARIES = ("jax", "jaxlib", "numpy", "onnx-ir", "onnxruntime")

MEASURED = frozenset({"tools", "speeds", "max_abs", "max_rel", "cosine", "excused", "speed"})
"""Fields of a manifest that differ between two runs or two installations."""

CARD = "README.md"
"""The model card, which states measured times and is therefore left out."""


@dataclass(frozen=True)
class Export:
    """A request whose files are written to a folder."""

    name: str
    run: Callable[[Path], None]


def digits(model: str, **options: Any) -> Export:
    """Return the verified export of a model with embedded weights."""
    label = "-".join(f"{key}={value}" for key, value in options.items())
    return Export(f"{model} {label}", lambda folder: _export(zoo.info(model), folder, options))


def small(model: str, **options: Any) -> Export:
    """Return the unverified export of a network with few blocks and channels and random weights."""
    entry = zoo.info(model)
    entry = replace(entry, config=nano(entry.config), parameters=100_000, labels=())
    label = "-".join(f"{key}={value}" for key, value in options.items())
    settings = {"weights": "random:1", "verify": False, **options}
    return Export(f"small {model} {label}", lambda folder: _export(entry, folder, settings))


def _export(entry: ModelInfo, folder: Path, options: Mapping[str, Any]) -> None:
    run_export(plan_files(entry, Options(out=folder, **options)), Quiet())


def command(*arguments: str) -> Export:
    """Return the export of a command that writes to a folder. `arguments` lack the option
    `--out`."""

    def run(folder: Path) -> None:
        with redirect_stdout(sys.stderr):
            assert call_zoo(*arguments, "--out", folder, "--offline") == 0

    return Export(" ".join(arguments), run)


def in_memory(model: str, **options: Any) -> Export:
    """Return the export of a model that is held in memory."""

    def run(folder: Path) -> None:
        zoo.to_onnx(zoo.from_pretrained(model), folder / "held.onnx", **options)

    return Export(f"to_onnx {model}", run)


BOTH = (23, 18)
DIGITS = ("vit_digits", "boxes_digits", "depth_digits", "siglip_digits_text", "siglip_digits_dual")
KINDS = (
    *("dinov3_vits16", "dinov3_convnext_tiny", "vit_tiny_patch16_224", "siglip2_vitb16_224"),
    *("depth_anything_v2_vits", "eomt_dinov3_coco_panoptic_small_640", "dinov2_vits14_ade20k_ms"),
    *("clip_vitb32", "swinv2_base_window12to16_192to256", "rf_detr_nano", "deimv2_s"),
)

QUICK = (
    digits("vit_digits", opsets=BOTH),
    digits("vit_digits", precision="int8", batch=2, keep_inexact=True),
)

EXPORTS = {
    export.name: export
    for export in (
        *QUICK,
        *(
            digits(model, opsets=BOTH, size="dynamic")
            for model in DIGITS
            if model != "siglip_digits_text"
        ),
        *(digits(model, opsets=BOTH) for model in DIGITS[1:]),
        *(
            digits("vit_digits", opsets=BOTH, precision=precision)
            for precision in ("fp16", "bf16", "int8", "q4", "q4f16")
        ),
        digits("vit_digits", opsets=BOTH, input="uint8"),
        digits("vit_digits", input="uint8", precision="int8"),
        digits("vit_digits", layers="last2", reshape=True, size=(32, 48), batch=1),
        digits("vit_digits", precision="int8", scales="row"),
        digits("vit_digits", target="portable", batch=1),
        digits("vit_digits", target="onnxruntime>=1.20", layout="3d"),
        digits("vit_digits", outputs=("attentions", "pooler_output")),
        *(small(model, opsets=BOTH) for model in KINDS),
        *(small(model, precision=p) for model in KINDS for p in ("fp16", "int8")),
        command("build", "vit_digits", "--variant", "all", "--scales", "row"),
        command("build", "siglip_digits_dual", "--variant", "fp32,fused,fp16"),
        in_memory("vit_digits", opset=18, precision="fp16"),
    )
}


def made_with() -> dict[str, str]:
    """Return the versions of the libraries, and a description of the machine."""
    return {"machine": describe_machine(), **{name: version(name) for name in LIBRARIES}}


def digests(export: Export) -> dict[str, str]:
    """Export to a temporary folder. Return the digest of each file by its path. A manifest is
    hashed without its measured fields."""
    with TemporaryDirectory() as scratch:
        export.run(folder := Path(scratch))
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CARD)
        return {path.relative_to(folder).as_posix(): _digest(path) for path in files}


def _digest(path: Path) -> str:
    """Return the first 16 hexadecimal digits of a file's sha256."""
    content = path.read_bytes()
    if path.name.endswith("manifest.json"):
        content = json.dumps(_repeatable(json.loads(content))).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _repeatable(value: Any) -> Any:
    """Return a JSON value without the measured fields and without the record of the model card."""
    if isinstance(value, dict):
        return {key: _repeatable(item) for key, item in value.items() if key not in MEASURED}
    if isinstance(value, list):
        return [_repeatable(item) for item in value if not _is_card(item)]
    return value


def _is_card(value: Any) -> bool:
    return isinstance(value, dict) and value.get("name") == CARD


def main() -> None:
    """Print the record of all exports, or of those whose names contain one of the given words."""
    words = sys.argv[1:] or [""]
    chosen = [export for export in EXPORTS.values() if any(word in export.name for word in words)]
    records = {}
    for export in chosen:
        records[export.name] = digests(export)
        sys.stderr.write(f"{export.name}\n")
    sys.stdout.write(json.dumps({"made_with": made_with(), "exports": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
