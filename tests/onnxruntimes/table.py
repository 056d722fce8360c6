"""The table of `docs/how-to/runtimes.md`: files of the zoo by versions of ONNX Runtime."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.onnxruntimes import VERSIONS, keep, python_of, run_all
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
"""Those whose weights the package has: a classifier, and a network of convolutions and depths."""

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "runtimes.md"
BEGIN, END = "<!-- versions: written by tests/onnxruntimes -->", "<!-- end of versions -->"

TARGETS = {"`zoo build`": "onnxruntime", "`zoo build --for 1.20`": "onnxruntime>=1.20"}

TOLERANCE = {"fp32": 1e-4}
"""Of what the installed version gives, relative to the largest number; in low precisions versions
round at other places."""


def build(folder: Path, target: str, model: str = MODELS[0]) -> dict[str, str]:
    """Every variant for a target, with what it gets and gives; returns their opsets by name."""
    options = Options(size="dynamic", target=target)
    variants = read_variants(["all"], target)
    build_folder(plan_folder(info(model), "auto", options, variants, folder / model), Quiet())
    manifest = read_folder_manifest(folder / model)
    golden = read_golden(folder / model / GOLDEN)
    inputs = dict(golden.feeds)
    for name, variant in manifest.variants.items():
        file = folder / model / variant.file
        (folder / f"{name}.onnx").write_bytes(file.read_bytes())
        wanted = [golden.outputs[output.name] for output in variant.outputs]
        if variant.precision != "bf16":
            wanted = runtime.open_session(file).run(None, inputs)
        tolerance = TOLERANCE.get(variant.precision, 0.05)
        keep(folder, name, list(inputs.values()), [np.asarray(w) for w in wanted], tolerance)
    return {name: str(variant.opset) for name, variant in manifest.variants.items()}


def rows() -> Iterator[str]:
    """The table, of the versions that there are environments of."""
    there = [version for version in VERSIONS if python_of(version)]
    yield f"| written by | model | file | opset | {' | '.join(there)} |"
    yield f"|---|---|---|---:|{'---|' * len(there)}"
    for (label, target), model in product(TARGETS.items(), MODELS):
        with TemporaryDirectory() as scratch:
            opsets = build(Path(scratch), target, model)
            found = {version: run_all(version, Path(scratch)) for version in there}
        for name, opset in opsets.items():
            cells = (word(found[version][name]) for version in there)
            yield f"| {label} | {model} | {name} | {opset} | {' | '.join(cells)} |"


def word(wrong: str) -> str:
    """What became of a file."""
    if not wrong:
        return "yes"
    return "no" if re.match("does not (load|run)", wrong) else f"**{wrong}**"


def write() -> None:
    """Put the table into its page."""
    before, rest = PAGE.read_text().split(BEGIN)
    table = "\n".join(rows())
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END, 1)[1]}")
