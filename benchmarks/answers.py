"""Measure networks that answer: the error of their files against PyTorch, and the files of other
exporters.

python benchmarks/answers.py --json benchmarks/results/answers.json [--optimum PYTHON] \\ [--rounds
10] [--busy]

The program also writes the table of `docs/how-to/answers.md`. Each result is written to the JSON
file at once. A run that was interrupted continues after the last result. Files are kept in
`--files`. PYTHON is the interpreter of an environment with Optimum (`tests/clients/optimum.txt`).
Without it Optimum is left out. With `--busy`, for a machine with other work, processor time is
measured.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

import converter
import zoo
from benchmarks.pages import number, table, with_part
from benchmarks.peers import MAKERS, Results, Row, arguments, count_nodes, header, run_exporter
from tests.references import classifiers
from zoo.apps.bench.measure import compute_product_times, product_tasks
from zoo.checkpoints.settings.library_configs import transformers_config
from zoo.common import runtime
from zoo.export.precision import write_lower_precision
from zoo.export.timing.rounds import as_task, measure_interleaved, open_idle_session
from zoo.export.timing.timed_inputs import resolve_timed_inputs
from zoo.export.timing.timed_products import timed_products
from zoo.export.verify import nearest_within_rounding, perturb_inputs
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values
from zoo.tasks.boxes import align_detections

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "answers.md"
OPSETS = (18, 23)
FUSED = ("Attention", "RotaryEmbedding", "LayerNormalization", "Gelu", "GridSample")
THREADS = 1

Arrays = Mapping[str, np.ndarray]

Size = tuple[int, int]
Settings = dict[str, Any]

SMALL_SIZES = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6}
BASE_SIZES = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
LONG, WORDS = 64, 32_000
"""Number of tokens of a text, and size of the vocabulary. It is smaller than SigLIP 2's 256,000:
that table is most of the file and takes no time."""

VISION = BASE_SIZES | {"image_size": 224, "patch_size": 16, "intermediate_size": 3072}
TEXT = BASE_SIZES | {
    **{"intermediate_size": 3072, "vocab_size": WORDS, "max_position_embeddings": LONG},
    "projection_size": 768,
}
OF_14 = SMALL_SIZES | {"image_size": 518, "patch_size": 14}


@dataclass(frozen=True)
class Reference:
    """PyTorch module with the names of its outputs, and the checkpoint for `--weights`."""

    path: Path
    module: torch.nn.Module
    names: tuple[str, ...]


@dataclass(frozen=True)
class AnswerNetwork:
    """Network to measure. Sizes are (height, width).

    `make` writes the checkpoint and returns the reference. Speed and cosines are measured at
    `size`, differences at `other_sizes` too. `task` is Optimum's name of the task. `ranks` is
    whether the network selects the best positions, several of which may be equally good.
    """

    make: Callable[[Path], Reference]
    size: Size = (224, 224)
    other_sizes: tuple[Size, ...] = ((224, 160), (160, 256))
    input_names: tuple[str, ...] = ("pixel_values",)
    task: str = ""
    ranks: bool = False


class ByName(torch.nn.Module):
    """Module that returns plain tensors instead of transformers' output class."""

    def __init__(
        self, model: Any, input_names: tuple[str, ...], names: tuple[str, ...], flags: Any
    ):
        super().__init__()
        self.model, self.input_names, self.names, self.flags = model, input_names, names, flags

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        tensors = (first,) if second is None else (first, second)
        named = dict(zip(self.input_names, tensors, strict=True))
        outputs = self.model(**named, **self.flags)
        return tuple(outputs[name] for name in self.names)


def transformers_network(
    kind: str,
    settings: Settings,
    flags: tuple[str, ...] = (),
    input_names: tuple[str, ...] = ("pixel_values",),
    names: tuple[str, ...] = ("logits",),
    **network_fields: Any,
) -> AnswerNetwork:
    """Return a network that is a class of transformers. `flags` are set to True in each call."""

    def make(folder: Path) -> Reference:
        model = classifiers.seeded(kind, settings)
        model.save_pretrained(folder)
        return Reference(
            folder, ByName(model, input_names, names, dict.fromkeys(flags, True)).eval(), names
        )

    return AnswerNetwork(make, input_names=input_names, **network_fields)


class FunctionModule(torch.nn.Module):
    """Module with one output, which a function computes from pictures and modules."""

    def __init__(self, call: Callable[..., torch.Tensor], *parts: torch.nn.Module):
        super().__init__()
        self.call, self.parts = call, torch.nn.ModuleList(parts)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.call(pictures, *self.parts),)


def classify_mean(pictures: torch.Tensor, backbone: Any, head: Any) -> torch.Tensor:
    """Return the result of a linear layer on the mean of the patches."""
    return head(backbone(pictures).last_hidden_state[:, 5:].mean(dim=1))


def make_dinov3(folder: Path) -> Reference:
    """Return a classifier on DINOv3 in timm's layout."""
    checkpoint = classifiers.dinov3_by("dinov3_vits16", 0, folder, depth=None)
    backbone, head = checkpoint.logits.args[0], checkpoint.logits.args[1]
    linear = torch.nn.Linear(384, len(head["bias"]))
    linear.load_state_dict({name: torch.from_numpy(value) for name, value in head.items()})
    return Reference(
        checkpoint.path, FunctionModule(classify_mean, backbone, linear).eval(), ("logits",)
    )


class SizedByName(ByName):
    """EoMT with the grid of the pictures. In transformers the grid is a setting and is square."""

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        self.model.grid_size = tuple(side // 16 for side in first.shape[2:])
        return super().forward(first, second)


def make_eomt(folder: Path) -> Reference:
    """Return EoMT on DINOv3."""
    name = "eomt_dinov3_coco_panoptic_small_640"
    settings = library_settings(name, key_bias=True, size=(320, 320))
    names = ("class_queries_logits", "masks_queries_logits")
    model = classifiers.seeded("EomtDinov3ForUniversalSegmentation", settings)
    model.attn_mask_probs.zero_()
    model.save_pretrained(folder)
    sides = {"shortest_edge": 320, "longest_edge": 320}
    EomtImageProcessorPil(size=sides, do_pad=True).save_pretrained(folder)
    # transformers reads from a tensor which blocks mask. PyTorch's exporter rejects that, but
    # accepts a list of numbers.
    shares = model.attn_mask_probs.tolist()
    del model.attn_mask_probs
    model.attn_mask_probs = shares
    return Reference(folder, SizedByName(model, ("pixel_values",), names, {}).eval(), names)


def library_settings(name: str, **changes: Any) -> Settings:
    """Return transformers' settings for a network of the zoo, without those that a class of
    transformers adds itself: its name and the names of the classes."""
    settings = transformers_config(zoo.info(name).config, (), **{"key_bias": False, **changes})
    added = ("architectures", "model_type", "dtype", "id2label", "label2id")
    return {name: value for name, value in settings.items() if name not in added}


def detection_network(
    name: str, kind: str, side: int, other: tuple[int, int], *masks: str, task: str = ""
) -> AnswerNetwork:
    """Return a network of full size that detects things. Its boxes are random."""
    return transformers_network(
        *(kind, library_settings(name)),
        names=("logits", "pred_boxes", *masks),
        size=(side, side),
        other_sizes=(other,),
        task=task,
        ranks=True,
    )


CLASSES = "image-classification"
INTERPOLATES = ("interpolate_pos_encoding",)
SIZES_OF_14 = ((224, 168), (154, 252))
VIT = {**SMALL_SIZES, "image_size": 224, "patch_size": 16, "intermediate_size": 1536}
STAGES = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}

DETECTION = "object-detection"

NETWORKS = {
    "ViT-S/16, classes": transformers_network(
        "ViTForImageClassification", VIT, INTERPOLATES, task=CLASSES
    ),
    "DINOv2 ViT-S/14, classes": transformers_network(
        "Dinov2ForImageClassification", OF_14, other_sizes=SIZES_OF_14, task=CLASSES
    ),
    "DINOv3 ViT-S/16, classes": AnswerNetwork(make_dinov3),
    "SigLIP 2 ViT-B/16, classes": transformers_network(
        "SiglipForImageClassification", {"vision_config": VISION}, INTERPOLATES, task=CLASSES
    ),
    "ConvNeXt V2 tiny, classes": transformers_network(
        "ConvNextV2ForImageClassification", STAGES, task=CLASSES
    ),
    "SigLIP 2 base, texts": transformers_network(
        *("SiglipTextModel", TEXT, (), ("input_ids",), ("pooler_output",)),
        other_sizes=(),
        task="feature-extraction",
    ),
    "SigLIP 2 ViT-B/16, pictures and texts": transformers_network(
        *("SiglipModel", {"text_config": TEXT, "vision_config": VISION}, INTERPOLATES),
        input_names=("pixel_values", "input_ids"),
        names=("logits_per_image", "text_embeds", "image_embeds"),
        task="zero-shot-image-classification",
    ),
    "Depth Anything V2 small": transformers_network(
        *("DepthAnythingForDepthEstimation", library_settings("depth_anything_v2_vits")),
        names=("predicted_depth",),
        other_sizes=SIZES_OF_14,
        task="depth-estimation",
    ),
    "EoMT small on DINOv3": AnswerNetwork(
        make_eomt, size=(320, 320), other_sizes=((320, 256), (192, 320)), task="image-segmentation"
    ),
    # transformers mixes up the windows of images that are not square.
    "RF-DETR nano": detection_network(
        "rf_detr_nano", "RfDetrForObjectDetection", 384, (512, 512), task=DETECTION
    ),
    "RF-DETR nano with masks": detection_network(
        "rf_detr_seg_nano", "RfDetrForInstanceSegmentation", 312, (384, 384), "pred_masks"
    ),
    "DEIMv2 small on DINOv3": detection_network(
        "deimv2_s", "Deimv2ForObjectDetection", 320, (256, 384), task=DETECTION
    ),
}
"""Networks by their titles on the page."""


def draw_inputs(
    network: AnswerNetwork,
    size: Size,
    model: zoo.architectures.base.Network | None,
) -> Arrays:
    """Return two pictures and three texts. The pictures are photographs if there is a model, whose
    preprocessing is used, and noise otherwise."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 3, *size), np.float32)
    preprocessing = model.preprocessing if model is not None else None
    pixels = noise if preprocessing is None else pixel_values(photographs(2), preprocessing, size)
    arrays = {"pixel_values": pixels, "input_ids": rng.integers(2, WORDS, (3, LONG))}
    return {name: arrays[name] for name in network.input_names}


def run_torch(reference: Reference, feeds: Arrays) -> Arrays:
    """Return the outputs of PyTorch."""
    with torch.no_grad():
        outputs = reference.module(*map(torch.from_numpy, feeds.values()))
    return dict(zip(reference.names, (output.numpy() for output in outputs), strict=True))


def measure_error(
    network: AnswerNetwork, reference: Reference, file: Path, feeds: Arrays, low: bool = False
) -> Row:
    """Return the largest difference from PyTorch, the largest value, and the smallest cosine.

    For a network that ranks positions, PyTorch's outputs for pictures that rounding perturbs count
    as right too. Files of `low` precision are compared by the detected things.
    """
    session, expected = runtime.session(file), run_torch(reference, feeds)
    names = [item.name for item in session.get_outputs() if item.name in reference.names]
    masks = {"attention_mask": np.ones((3, LONG), np.int64)}
    feeds_of_file = {item.name: ({**feeds, **masks})[item.name] for item in session.get_inputs()}
    actual: Arrays = dict(zip(names, session.run(names, feeds_of_file), strict=True))
    expected = {name: expected[name] for name in names}
    if network.ranks and low:
        actual, expected = align_detections(actual, expected)
    elif network.ranks:
        moved = [dict(zip(feeds, item, strict=True)) for item in perturb_inputs({**feeds})]
        expected = nearest_within_rounding(
            actual, expected, [run_torch(reference, item) for item in moved]
        )
    errors = [converter.compare(actual[name], expected[name]) for name in expected]
    return {
        "max_abs": max(item.max_abs for item in errors),
        "largest": max(float(abs(item).max()) for item in expected.values()),
        "cosine": min(item.cosine for item in errors),
    }


def export_with_zoo(network: AnswerNetwork, reference: Reference, folder: Path) -> dict[str, Row]:
    """Return rows for the zoo's files. Differences at other sizes are those of symbolic files."""
    model = zoo.from_pretrained(None, reference.path)
    size = network.size if "pixel_values" in network.input_names else None
    feeds = draw_inputs(network, network.size, model)
    rows: dict[str, Row] = {}
    for opset in OPSETS:
        file, opened = folder / f"zoo-{opset}.onnx", folder / f"zoo-{opset}-open.onnx"
        zoo.to_onnx(model, file, opset=opset, size=size, verify=False)
        row = rows[f"zoo, opset {opset}"] = describe_file(network, reference, file, feeds)
        if network.other_sizes:
            zoo.to_onnx(model, opened, opset=opset, size="dynamic", verify=False)
        errors = [
            measure_error(network, reference, opened, draw_inputs(network, other_size, None))
            for other_size in network.other_sizes
        ]
        row |= max([row, *errors], key=lambda error: error["max_abs"])
    for precision in ("int8", "fp16"):
        file = folder / f"zoo-{precision}.onnx"
        source, exact = folder / f"zoo-{OPSETS[-1]}.onnx", model.config.task.exact
        write_lower_precision(source, file, precision, [*feeds.values()], exact=exact)
        row = rows[f"zoo, {precision}"] = describe_file(network, reference, file, feeds, low=True)
        row |= {"ranks": True} if network.ranks else {}
    return rows


def export_with_torch(
    network: AnswerNetwork, reference: Reference, folder: Path, opset: int
) -> Row:
    """Export with torch.onnx.export and a symbolic batch. Return a row, or why it fails."""
    file, feeds = folder / f"torch-{opset}.onnx", draw_inputs(network, network.size, None)
    began = time.process_time()
    try:
        torch.onnx.export(
            reference.module,
            tuple(map(torch.from_numpy, feeds.values())),
            file,
            input_names=[*network.input_names],
            output_names=[*reference.names],
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=tuple({0: torch.export.Dim(f"n{n}")} for n in range(len(feeds))),
            external_data=False,
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith("(")]
        return {"failed": lines[-1][:300]}
    seconds = round(time.process_time() - began, 2)
    return {"processors": seconds} | describe_file(network, reference, file, feeds)


def export_with_optimum(
    network: AnswerNetwork, reference: Reference, folder: Path, python: str
) -> Row:
    """Export with Optimum at opset 18. Return a row, or why it fails."""
    file = folder / "optimum" / "written.onnx"
    file.parent.mkdir(exist_ok=True)
    arguments = ["optimum", str(reference.path), "", "18", str(file), network.task]
    exported = run_exporter([python, str(MAKERS), *arguments])
    if "failed" in exported:
        return exported
    row = describe_file(network, reference, file, draw_inputs(network, network.size, None))
    return exported | row | {"file": f"optimum/{file.name}"}


def describe_file(
    network: AnswerNetwork, reference: Reference, file: Path, feeds: Arrays, low: bool = False
) -> Row:
    """Return the numbers of nodes of a file, and its error against PyTorch."""
    error = measure_error(network, reference, file, feeds, low)
    return count_nodes(file, FUSED) | error | {"file": file.name}


def measure_speed(
    folder: Path, rows: Mapping[str, Row], network: AnswerNetwork, options: argparse.Namespace
) -> Row:
    """Return the fastest run of each file over that of the first file's matrix products."""
    clock = time.thread_time if options.busy else time.perf_counter
    feeds = {name: value[:1] for name, value in draw_inputs(network, network.size, None).items()}
    feeds["attention_mask"] = np.ones((1, LONG), np.int64)
    files = {label: folder / row["file"] for label, row in rows.items() if "file" in row}
    sessions = {label: open_idle_session(file, THREADS) for label, file in files.items()}
    tasks = {
        label: as_task(
            session,
            {graph_input.name: feeds[graph_input.name] for graph_input in session.get_inputs()},
        )
        for label, session in sessions.items()
    }
    label, file = next(iter(files.items()))
    specs = resolve_timed_inputs(file, sessions[label].get_inputs(), 1, network.size)
    products = timed_products(ir.load(file), specs)
    times = measure_interleaved(tasks | product_tasks(products, THREADS), options.rounds, clock)
    total = compute_product_times(products, times).total
    return {
        "products_ms": round(1e3 * total, 3),
        "to_products": {label: round(min(times[label]) / total, 3) for label in tasks},
    }


def measure(label: str, results: Results, options: argparse.Namespace) -> None:
    """Measure all missing results of a network."""
    network, folder = NETWORKS[label], options.files / label.replace(" ", "_").replace("/", "")
    exporters = [f"torch, opset {opset}" for opset in OPSETS]
    exporters += ["Optimum"] if options.optimum and network.task else []
    if {"zoo", *exporters, "speed"} <= results.content["networks"].get(label, {}).keys():
        return
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    reference, keys = network.make(folder / "checkpoint"), ("networks", label)
    results.fill(*keys, "zoo", make=lambda: export_with_zoo(network, reference, folder))
    for opset, exporter in zip(OPSETS, exporters, strict=False):
        results.fill(
            *keys, exporter, make=lambda o=opset: export_with_torch(network, reference, folder, o)
        )
    if "Optimum" in exporters:
        results.fill(
            *(*keys, "Optimum"),
            make=lambda: export_with_optimum(network, reference, folder, options.optimum),
        )
    network_results = results.content["networks"][label]
    rows = network_results["zoo"] | {exporter: network_results[exporter] for exporter in exporters}
    results.fill(*keys, "speed", make=lambda: measure_speed(folder, rows, network, options))


PEERS = ("zoo, opset 23", "torch, opset 23", "zoo, opset 18", "torch, opset 18", "Optimum")
TIMED = (*PEERS[:2], "zoo, int8", *PEERS[2:])

DIFFERENCES = """The table shows the largest difference of any output from PyTorch, and the largest
value of an output. It includes the size that is used for the times and, if the network in PyTorch
supports them, two sizes that are not square. The networks have the size of published networks, and
their weights are random numbers from a seed. The cosines are the smallest cosines of all outputs on
two photographs. A network that detects objects first ranks positions, so a rounding error can
change the selected positions. For such a network, the outputs of PyTorch for slightly perturbed
pictures also count as right, and the files of lower precision are compared only by the detected
objects.
"""

NODES = """This table shows the number of nodes of each file, with the number of `Attention`
nodes in brackets. The other columns are files of `torch.onnx.export(dynamo=True)` and of Optimum.
"""

SPEED = """Each number is the fastest run of a file, divided by the fastest run of the matrix
products of the network alone. The files ran in turns in one process, with one picture, one text and
one thread. Only int8 files can have a ratio below 1.
"""


def tables_of(content: Row) -> Iterator[str]:
    """Yield the lines of the tables, and where they were measured."""
    networks = {name: row for name, row in content["networks"].items() if "speed" in row}
    yield DIFFERENCES
    yield from table(
        ["network", "opset 18", "opset 23", "largest number", "int8, cosine", "fp16, cosine"],
        [[name, *differences(results["zoo"])] for name, results in networks.items()],
    )
    yield NODES
    rows = {name: {**results["zoo"], **results} for name, results in networks.items()}
    node_rows = [
        [name, *(nodes(row.get(peer, {})) for peer in PEERS)] for name, row in rows.items()
    ]
    yield from table(["nodes", *PEERS], node_rows)
    yield SPEED
    yield from table(
        ["time over products", *TIMED, "products, ms"],
        [[name, *times(results["speed"])] for name, results in networks.items()],
    )
    yield from failures(networks)
    versions = ", ".join(f"{name} {value}" for name, value in content["versions"].items())
    peers = "; ".join(dict.fromkeys(content["peers"].values()))
    yield f"Measured on {content['date']}: {content['machine']}; {versions}; beside {peers}."
    yield f"\n**{content['note']}**" if content["note"] else ""


def failures(networks: Row) -> Iterator[str]:
    """Yield a line for each exporter that writes no file of a network, with the reason."""
    for name, results in networks.items():
        for peer in PEERS:
            if error := results.get(peer, {}).get("failed"):
                reason = error.replace("`", "").partition(". ")[0].partition(", but")[0]
                yield f"* {peer} writes no file of {name}: `{reason}`"
    yield ""


def differences(rows_of_file: Row) -> Iterator[str]:
    """Yield the differences at both opsets, and those of lower precisions."""
    files = [rows_of_file["zoo, opset 18"], rows_of_file["zoo, opset 23"]]
    yield from (number(row["max_abs"], ".1e") for row in files)
    yield number(max(row["largest"] for row in files), ".3g")
    yield from (number(rows_of_file[f"zoo, {name}"]["cosine"], ".6f") for name in ("int8", "fp16"))


def nodes(row: Row) -> str:
    """Return the number of nodes and the number of attention operators in parentheses, or an empty
    string without a file."""
    if "nodes" not in row:
        return ""
    count = row["fused"].get("Attention")
    return f"{row['nodes']:,}" + (f" ({count})" if count else "")


def times(speeds: Row) -> Iterator[str]:
    """Yield the ratios of the files, and the milliseconds of the matrix products."""
    yield from (number(speeds["to_products"].get(name), ".2f") for name in TIMED)
    yield number(speeds["products_ms"], ".1f")


def main() -> None:
    options = arguments(__doc__, ".cache/answers", 10, "networks", NETWORKS).parse_args()
    torch.set_num_threads(THREADS)
    pythons = {"torch": sys.executable} | ({"optimum": options.optimum} if options.optimum else {})
    results = Results(options.json, header(options.busy, pythons) | {"networks": {}})
    for label in options.networks:
        measure(label, results, options)
    PAGE.write_text(with_part(PAGE.read_text(), "answers", tables_of(results.content)))


if __name__ == "__main__":
    main()
