"""The table of `docs/how-to/runtimes.md`: which versions of ONNX Runtime run files of the zoo."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.onnxruntimes import VERSIONS, find_python, run_all, store_case
from weights.progress import Quiet
from zoo.artifacts.read import read_folder_manifest
from zoo.common import runtime
from zoo.common.golden_file import read_golden
from zoo.export.assemble.extras import GOLDEN
from zoo.export.assemble.folder import build_folder
from zoo.export.assemble.plan import plan_folder, read_variants
from zoo.export.request import Options
from zoo.registry.lookup import info

MODELS = ("vit_digits", "depth_digits")
"""Models with bundled weights: a classifier, and a depth network with convolutions."""

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "runtimes.md"
BEGIN, END = "<!-- versions: written by tests/onnxruntimes -->", "<!-- end of versions -->"

TARGETS = {"`zoo build`": "onnxruntime", "`zoo build --for 1.20`": "onnxruntime>=1.20"}

TOLERANCE = {"fp32": 1e-4}
"""The tolerance relative to the largest output of the installed version.

In low precisions, versions round at different nodes."""


def build_files(folder: Path, target: str, model: str = MODELS[0]) -> dict[str, str]:
    """Build every variant for a target with its inputs and outputs. Return the opsets by name."""
    options = Options(size="dynamic", target=target)
    variants = read_variants(["all"], target)
    build_folder(plan_folder(info(model), "auto", options, variants, folder / model), Quiet())
    manifest = read_folder_manifest(folder / model)
    golden = read_golden(folder / model / GOLDEN)
    inputs = dict(golden.feeds)
    for name, variant in manifest.variants.items():
        file = folder / model / variant.file
        (folder / f"{name}.onnx").write_bytes(file.read_bytes())
        expected = [golden.outputs[output.name] for output in variant.outputs]
        if variant.precision != "bf16":
            expected = runtime.open_session(file).run(None, inputs)
        tolerance = TOLERANCE.get(variant.precision, 0.05)
        store_case(
            folder, name, list(inputs.values()), [np.asarray(w) for w in expected], tolerance
        )
    return {name: str(variant.opset) for name, variant in manifest.variants.items()}


def table_rows() -> Iterator[str]:
    """Yield the lines of the table. Its columns are the versions that have an environment."""
    versions = [version for version in VERSIONS if find_python(version)]
    yield f"| written by | model | file | opset | {' | '.join(versions)} |"
    yield f"|---|---|---|---:|{'---|' * len(versions)}"
    for (label, target), model in product(TARGETS.items(), MODELS):
        with TemporaryDirectory() as folder:
            opsets = build_files(Path(folder), target, model)
            faults = {version: run_all(version, Path(folder)) for version in versions}
        for name, opset in opsets.items():
            cells = (describe_fault(faults[version][name]) for version in versions)
            yield f"| {label} | {model} | {name} | {opset} | {' | '.join(cells)} |"


def describe_fault(fault: str) -> str:
    """Return the cell of a file: `yes`, `no` if it did not run, or the difference."""
    if not fault:
        return "yes"
    return "no" if re.match("does not (load|run)", fault) else f"**{fault}**"


def write_table() -> None:
    """Write the table into its page."""
    beginning, ending = PAGE.read_text().split(BEGIN)
    table = "\n".join(table_rows())
    PAGE.write_text(f"{beginning}{BEGIN}\n\n{table}\n\n{END}{ending.split(END, 1)[1]}")
