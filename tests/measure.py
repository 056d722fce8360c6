"""Measure the difference between our models and other implementations of them: `python -m
tests.measure`.

The command writes the numbers to `benchmarks/results/models.json`, and the page `docs/models.md`
from them.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import converter
import zoo
from converter.model.verdict import compare
from converter.verify.sessions import run
from tests.loading import network_in
from tests.references import Arrays, Reference
from tests.seeded import TINY7B, leaves_of, model_of, state_of, values_of
from tests.synthetic import digest, make_image
from weights import bind
from zoo.architectures.architecture import Config
from zoo.architectures.base import Network
from zoo.architectures.builder import abstract
from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.output import by_name
from zoo.export.make import convert_model
from zoo.export.precision import write_lower_precision
from zoo.export.precisions import PRECISIONS
from zoo.export.request import Signature
from zoo.export.verify import nearest_within_rounding, perturb_inputs
from zoo.tasks.task import keep_outputs

FAMILIES = (
    "dinov3",
    "convnext",
    "dinov2",
    "siglip2",
    "tips",
    "clip",
    "swin",
    "eupe",
    "vit",
    "depth_anything",
    "eomt",
    "segmenter",
    "digits",
)
REFERENCES: dict[str, dict[str, Reference]] = {
    name: references
    for family in FAMILIES
    for name, references in import_module(f"tests.references.{family}").REFERENCES.items()
}

FOLDER = Path(__file__).parents[1] / "docs"
RESULTS = FOLDER.parent / "benchmarks" / "results"
GOLDEN = Path(__file__).parent / "golden"
OPSETS = (18, 20, 23, 24)
MODELS = (
    *("dinov3_vits16", "dinov3_convnext_tiny", "dinov2_vits14", "dinov2_vits14_reg"),
    *("siglip2_vitb16_224", "tips_vits14_hr", "eupe_vitt16", "eupe_convnext_tiny"),
    *("vit_tiny_patch16_224", "vit5_small", "vit_digits", "convnext_tiny", "convnextv2_atto"),
    *("depth_anything_v2_vits", "eomt_dinov3_coco_panoptic_small_640"),
    *("dinov2_vits14_voc2012_linear", "tipsv2_vitb14", "clip_vitb32", "swinv2_tiny_window8_256"),
    *("deit_tiny_distilled_patch16_224", "rf_detr_nano", "deimv2_s"),
)
"""One model of each family."""

GOLDENS = ("dinov3_vits16", "dinov2_vits14", "dinov2_vits14_reg", "dinov3_convnext_tiny")
IN_PRECISIONS = (
    *("dinov3_vits16", "deit_tiny_distilled_patch16_224", "swinv2_tiny_window8_256"),
    "convnextv2_atto",
)
PRECISION_OPSET = 23
ON_CPUS = [name for name, traits in PRECISIONS.items() if traits.half != "bfloat16"]
"""Precisions for which ONNX Runtime has CPU kernels. Their files are measured at one opset."""

Row = dict[str, Any]


def counts(entry: ModelInfo) -> Row:
    """Return the numbers of nodes of the file for the native size at two opsets, and the fused
    operators at the newer one."""
    model, size = abstract(entry.config), Signature(entry.native_size, None)
    old, new = (convert_model(model, opset, size).report for opset in (18, 23))
    fused = {name: count for name, count in new.fused.items() if count}
    return {"nodes": {"18": old.nodes, "23": new.nodes}, "fused": fused}


def outputs(model: Network, image: np.ndarray) -> Arrays:
    """Return a model's outputs for one image, computed in JAX."""
    result = eqx.filter_jit(lambda model, x: model(x))(model, image)
    return {name: np.asarray(value) for name, value in by_name(result).items()}


def worst(
    actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
) -> tuple[float, float]:
    """Return the largest absolute and the largest relative error over the outputs in `expected`."""
    errors = [compare(actual[name], expected[name]) for name in expected]
    return max(error.max_abs for error in errors), max(error.max_rel for error in errors)


def files(model: Network, values: Any, signature: Signature) -> Iterator[Any]:
    """Yield the opset and a live session of a model's file, for each opset of `OPSETS`."""
    for opset in OPSETS:
        export = convert_model(model, opset, signature)
        with tempfile.TemporaryDirectory() as folder:
            export.save(Path(folder) / "model.onnx", values=values)
            yield opset, converter.session(Path(folder) / "model.onnx")


PUBLISHER = {"transformers": "huggingface"}
"""The publisher of the network that a reference computes, if the reference has another name."""


def measure(name: str) -> Iterator[Row]:
    """Yield the row of a model with seeded weights, at its native size."""
    entry = zoo.info(name)
    size = entry.native_size
    image = make_image(1, *size)
    against = {}
    for who, reference in REFERENCES.get(name, {}).items():
        config = network_in(entry, PUBLISHER.get(who, who))
        values, model = values_of(config), model_of(config)
        error, relative = worst(outputs(model, image), reference(config, values, image))
        against[who] = {"abs": error, "rel": relative}
    values, expected = values_of(entry.config), outputs(model_of(entry.config), image)
    ranks = entry.config.task.align_outputs is not keep_outputs
    images = perturb_inputs({"image": image}) if ranks else ()
    nearby = [outputs(model_of(entry.config), perturbed) for (perturbed,) in images]
    runtime = {}
    for opset, live in files(abstract(entry.config), values, Signature(size, None)):
        actual = {output: value[0] for output, value in run(live, [image[None]]).items()}
        runtime[str(opset)], _ = worst(actual, nearest_within_rounding(actual, expected, nearby))
    yield {
        **{"model": name, "family": entry.family, "size": list(size)},
        **{"parameters": entry.parameters, "against": against, "onnxruntime": runtime},
        **counts(entry),
    }


@dataclass(frozen=True)
class Original:
    """A network with seeded weights, and the stored outputs of the original implementation."""

    config: Config
    values: Arrays
    expected: Arrays

    @cached_property
    def model(self) -> Network:
        return bind(abstract(self.config), self.values)

    def at(self, size: str) -> tuple[np.ndarray, Arrays]:
        """Return an image of a size, and the outputs that are stored for it."""
        prefix = f"{size}/"
        case = {k.removeprefix(prefix): v for k, v in self.expected.items() if k.startswith(prefix)}
        image = make_image(int(case["image_seed"]), *map(int, size.split("x")))
        assert digest({"image": image[None]}) == str(case["image_sha256"])
        return image, case

    def pairs(self, tokens: np.ndarray, pooled: np.ndarray, case: Arrays) -> list[Any]:
        """Return pairs of a computed and a stored output of one image. `rows` are the computed
        tokens, and `pooled` is the pooled vector."""
        first_patch = self.config.prefix_tokens
        patches = tokens[first_patch:]
        assert len(patches) == case["num_patches"]
        return [
            (pooled, case["x_norm_clstoken"][0]),
            (tokens[0], case["x_norm_clstoken"][0]),
            (tokens[1:first_patch], case["x_storage_tokens"][0]),
            (patches[case["patch_indices"]], case["x_norm_patchtokens_16"][0]),
            (patches.mean(0), case["patch_mean"][0]),
        ]


@lru_cache(1)
def original(name: str) -> Original:
    """Return the original of this name: one of `GOLDENS`, or the small network with the options of
    DINOv3's largest one."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        expected = dict(file)
    entry = zoo.info("dinov3_vit7b16" if name == "dinov3_tiny7b" else name)
    config, naming = TINY7B if name == "dinov3_tiny7b" else entry.config, entry.namings[0]
    state = state_of(config, naming, int(expected["seed"]))
    assert digest(state) == str(expected["state_sha256"]), "other keys or other numbers"
    return Original(config, leaves_of(config, naming, state), expected)


def measure_golden(name: str) -> Iterator[Row]:
    """Yield a row for each stored size: the difference to the original's outputs in JAX and in ONNX
    Runtime."""
    golden = original(name)

    def error(actual: Arrays) -> float:
        pairs = golden.pairs(actual["last_hidden_state"], actual["pooler_output"], stored)
        return max(float(np.abs(a - b).max(initial=0.0)) for a, b in pairs)

    sizes = {key.partition("/")[0] for key in golden.expected if "/" in key}
    for size in sorted(sizes, key=lambda text: [int(side) for side in text.split("x")]):
        image, stored = golden.at(size)
        row: Row = {"model": name, "size": list(image.shape[1:])}
        row["jax"] = error(outputs(golden.model, image))
        for label, signature in (("fixed", image.shape[1:]), ("open", None)):
            row[label] = {}
            shapes = abstract(golden.config)
            for opset, live in files(shapes, golden.values, Signature(signature, None)):
                actual = {k: v[0] for k, v in run(live, [image[None]]).items()}
                row[label][str(opset)] = error(actual)
        yield row


def measure_precisions(name: str) -> Iterator[Row]:
    """Yield the smallest cosine between a file's outputs and those of float32 in JAX, in each
    precision. The rows are for the native size and for a size that is not square; files of both
    have open sizes."""
    entry = zoo.info(name)
    height, width = entry.native_size
    model, values = model_of(entry.config), values_of(entry.config)
    signature, stride = Signature(None, None), entry.config.stride
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "fp32.onnx"
        convert_model(abstract(entry.config), PRECISION_OPSET, signature).save(exact, values=values)
        sample = make_image(1, height, width)[None]
        sessions = {}
        for precision in ON_CPUS:
            path = Path(folder) / f"{precision}.onnx"
            if precision != "fp32":
                write_lower_precision(exact, path, precision, [sample])
            sessions[precision] = converter.session(path)
        for size in ((height, width), (height - stride, width + 2 * stride)):
            image = make_image(2, *size)
            expected, cosines = outputs(model, image), {}
            for precision, session in sessions.items():
                actual = {output: value[0] for output, value in run(session, [image[None]]).items()}
                cosines[precision] = min(
                    compare(actual[key], expected[key]).cosine for key in expected
                )
            yield {"model": name, "size": list(size), "cosine": cosines}


def render(content: Mapping[str, Any]) -> str:
    """Return the page with its tables, as Markdown."""
    lines = [INTRODUCTION, *_table(MODEL_COLUMNS, content["models"]), "", GOLDEN_TEXT]
    lines += [*_table(GOLDEN_COLUMNS, content["goldens"]), "", PRECISION_TEXT]
    return "\n".join([*lines, *_table(PRECISION_COLUMNS, content["precisions"]), ""])


def _table(columns: Mapping[str, Any], rows: list[Row]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell(row) for cell in columns.values()) + " |"


def _at(*keys: str) -> Callable[[Row], str]:
    """Return a function of a row that formats the number at these keys, or gives `-` if the row has
    none."""

    def cell(row: Row) -> str:
        value: Any = row
        for key in keys:
            value = value.get(key, {})
        return f"{value:.1e}" if value != {} else "-"

    return cell


NAMED: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row["model"],
    "size": lambda row: "x".join(map(str, row["size"])),
}
MODEL_COLUMNS = NAMED | {
    "parameters": lambda row: f"{row['parameters']:,}",
    "Equimo (rel)": _at("against", "equimo", "rel"),
    "transformers": _at("against", "transformers", "abs"),
    **{f"ONNX {opset}": _at("onnxruntime", str(opset)) for opset in OPSETS},
    "nodes 18": lambda row: str(row["nodes"]["18"]),
    "nodes 23": lambda row: str(row["nodes"]["23"]),
    "fused at 23": lambda row: ", ".join(f"{n} {name}" for name, n in row["fused"].items()),
}

GOLDEN_COLUMNS = NAMED | {
    "JAX": _at("jax"),
    **{f"ONNX {opset}": _at("fixed", str(opset)) for opset in OPSETS},
    **{f"ONNX {opset}, open size": _at("open", str(opset)) for opset in (18, 23)},
}

PRECISION_COLUMNS = NAMED | {
    precision: lambda row, precision=precision: f"{row['cosine'][precision]:.6f}"
    for precision in ON_CPUS
}

INTRODUCTION = """# Models, measured

This page shows how much the outputs of our networks and their files differ from other
implementations of the same networks. All weights are random numbers from a seed. Unless the text
says otherwise, each number is the largest absolute difference over all outputs. Run `python -m
tests.measure` to measure the numbers.

## Against other implementations

The table has one model of each family, at its native image size. All implementations have the same
weights.

- `Equimo (rel)` compares our model with unmodified Equimo 1.1.0 in JAX. The difference is relative
  to the largest output.
- `transformers` compares our model with the model of transformers in PyTorch. Most features are
  about 1 in size. The logits of the masks of EoMT reach 40.
- `ONNX 18` to `ONNX 24` compare the file at this opset in ONNX Runtime with our model in JAX.

The test `tests/zoo/architectures/test_vit_families.py` compares ViT-5 with stored outputs of Equimo
2.7.0, because this version of Equimo requires a newer version of Python.
"""

GOLDEN_TEXT = """## Against the original networks

The numbers are differences from the outputs that the original PyTorch code computed for the same
seeded checkpoint. `tests/golden/` contains these outputs at several sizes, and the table has a row
for each size. *Open size* is a single file in which the batch size, the height and the width are
all dynamic.
"""


PRECISION_TEXT = f"""## In each precision

Each number is the smallest cosine between an output of the file and the same output of the model in
JAX in float32. The files have opset {PRECISION_OPSET} and run in ONNX Runtime on a CPU. bfloat16
is missing, because ONNX Runtime has few CPU kernels for bfloat16. The second size of each model is
not square.
"""


def main() -> None:
    """Measure the models that the command line names, or all models. Write the JSON file and the
    page."""
    chosen = sys.argv[1:]
    path = RESULTS / "models.json"
    content = json.loads(path.read_text()) if path.exists() else {"models": [], "goldens": []}
    tables = (
        *(("models", MODELS, measure), ("goldens", GOLDENS, measure_golden)),
        ("precisions", IN_PRECISIONS, measure_precisions),
    )
    for table, names, rows_of in tables:
        for name in (name for name in names if not chosen or name in chosen):
            print(table, name, file=sys.stderr)
            other_rows = [row for row in content.get(table, ()) if row["model"] != name]
            content[table] = other_rows + list(rows_of(name))
            jax.clear_caches()
    path.write_text(json.dumps(content, indent=1) + "\n")
    (FOLDER / "models.md").write_text(render(content))


if __name__ == "__main__":
    main()
