"""Networks that answer: how far their files are from PyTorch, and what other exporters write.

    python benchmarks/answers.py --json benchmarks/results/answers.json [--optimum PYTHON] \\
        [--rounds 10] [--busy]

It writes the table of `docs/how-to/answers.md` too. What was measured is in the JSON file at once,
and a run that broke off goes on behind it. Files are kept in `--files`. PYTHON is the interpreter
of an environment with Optimum (`tests/clients/optimum.txt`), which is left out otherwise. With
`--busy`, for a machine that has other work, the time of the processor counts.
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
from benchmarks.peers import MAKERS, Results, Row, arguments, cold, counted, header
from tests.references import classifiers
from zoo.apps.bench.measure import compute_floor, product_tasks
from zoo.checkpoints.settings.library_configs import transformers_config
from zoo.common import runtime
from zoo.export.precision import derive
from zoo.export.timing.rounds import as_task, measure_interleaved, resting_session
from zoo.export.timing.timed_inputs import fix_input_shapes
from zoo.export.timing.timed_products import timed_products
from zoo.export.verify import move_inputs, nearest_within_rounding
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

SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6}
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
LONG, WORDS = 64, 32_000
"""Tokens of a text, and how many there are to choose from: fewer than SigLIP 2's 256,000, whose
table is most of its file and takes no time."""

VISION = BASE | {"image_size": 224, "patch_size": 16, "intermediate_size": 3072}
TEXT = BASE | {
    **{"intermediate_size": 3072, "vocab_size": WORDS, "max_position_embeddings": LONG},
    "projection_size": 768,
}
OF_14 = SMALL | {"image_size": 518, "patch_size": 14}


@dataclass(frozen=True)
class Made:
    """What is given for `--weights`, and PyTorch's module, which returns its outputs by name."""

    path: Path
    module: torch.nn.Module
    names: tuple[str, ...]


@dataclass(frozen=True)
class AnswerNetwork:
    """`size` is that of the pictures of which speed and cosines are measured, `others` are those
    that differences are measured at too; both (height, width). `task` is what Optimum calls it.
    One that `ranks` goes on with the places that are best, of which several may be as good."""

    make: Callable[[Path], Made]
    size: Size = (224, 224)
    others: tuple[Size, ...] = ((224, 160), (160, 256))
    takes: tuple[str, ...] = ("pixel_values",)
    task: str = ""
    ranks: bool = False


class ByName(torch.nn.Module):
    """Plain tensors in place of transformers' record."""

    def __init__(self, model: Any, takes: tuple[str, ...], names: tuple[str, ...], asks: Any):
        super().__init__()
        self.model, self.takes, self.names, self.asks = model, takes, names, asks

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        given = (first,) if second is None else (first, second)
        named = dict(zip(self.takes, given, strict=True))
        found = self.model(**named, **self.asks)
        return tuple(found[name] for name in self.names)


def in_transformers(
    kind: str,
    settings: Settings,
    asks: tuple[str, ...] = (),
    takes: tuple[str, ...] = ("pixel_values",),
    names: tuple[str, ...] = ("logits",),
    **more: Any,
) -> AnswerNetwork:
    """A class of transformers with some settings, which is asked for what takes a flag; it is saved
    in the folder."""

    def make(folder: Path) -> Made:
        model = classifiers.seeded(kind, settings)
        model.save_pretrained(folder)
        return Made(folder, ByName(model, takes, names, dict.fromkeys(asks, True)).eval(), names)

    return AnswerNetwork(make, takes=takes, **more)


class Called(torch.nn.Module):
    """A function of pictures and modules, as a module of one output."""

    def __init__(self, call: Callable[..., torch.Tensor], *parts: torch.nn.Module):
        super().__init__()
        self.call, self.parts = call, torch.nn.ModuleList(parts)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.call(pictures, *self.parts),)


def of_mean(pictures: torch.Tensor, backbone: Any, head: Any) -> torch.Tensor:
    """A linear layer on the mean of the patches."""
    return head(backbone(pictures).last_hidden_state[:, 5:].mean(dim=1))


def dinov3(folder: Path) -> Made:
    """A classifier on DINOv3, in timm's layout."""
    own = classifiers.dinov3_by("dinov3_vits16", 0, folder, depth=None)
    backbone, head = own.logits.args[0], own.logits.args[1]
    linear = torch.nn.Linear(384, len(head["bias"]))
    linear.load_state_dict({name: torch.from_numpy(value) for name, value in head.items()})
    return Made(own.path, Called(of_mean, backbone, linear).eval(), ("logits",))


class SizedByName(ByName):
    """EoMT, whose grid is a setting, of squares, in transformers: here it is that of pictures."""

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> Any:
        self.model.grid_size = tuple(side // 16 for side in first.shape[2:])
        return super().forward(first, second)


def eomt(folder: Path) -> Made:
    """EoMT on DINOv3."""
    name = "eomt_dinov3_coco_panoptic_small_640"
    settings = settings_of(name, key_bias=True, size=(320, 320))
    names = ("class_queries_logits", "masks_queries_logits")
    model = classifiers.seeded("EomtDinov3ForUniversalSegmentation", settings)
    model.attn_mask_probs.zero_()
    model.save_pretrained(folder)
    sides = {"shortest_edge": 320, "longest_edge": 320}
    EomtImageProcessorPil(size=sides, do_pad=True).save_pretrained(folder)
    # Which blocks mask is asked of a tensor, which torch's exporter refuses, and not of numbers.
    shares = model.attn_mask_probs.tolist()
    del model.attn_mask_probs
    model.attn_mask_probs = shares
    return Made(folder, SizedByName(model, ("pixel_values",), names, {}).eval(), names)


def settings_of(name: str, **more: Any) -> Settings:
    """transformers' for a network of the zoo, without the names of the class and of its classes,
    which a class adds itself."""
    settings = transformers_config(zoo.info(name).config, (), **{"key_bias": False, **more})
    added = ("architectures", "model_type", "dtype", "id2label", "label2id")
    return {name: value for name, value in settings.items() if name not in added}


def finder(
    name: str, kind: str, side: int, other: tuple[int, int], *masks: str, task: str = ""
) -> AnswerNetwork:
    """A network that finds things, in full size, its boxes anywhere."""
    return in_transformers(
        *(kind, settings_of(name)),
        names=("logits", "pred_boxes", *masks),
        size=(side, side),
        others=(other,),
        task=task,
        ranks=True,
    )


CLASSES = "image-classification"
INTERPOLATES = ("interpolate_pos_encoding",)
SIZES_OF_14 = ((224, 168), (154, 252))
VIT = {**SMALL, "image_size": 224, "patch_size": 16, "intermediate_size": 1536}
STAGES = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}

DETECTION = "object-detection"

NETWORKS = {
    "ViT-S/16, classes": in_transformers(
        "ViTForImageClassification", VIT, INTERPOLATES, task=CLASSES
    ),
    "DINOv2 ViT-S/14, classes": in_transformers(
        "Dinov2ForImageClassification", OF_14, others=SIZES_OF_14, task=CLASSES
    ),
    "DINOv3 ViT-S/16, classes": AnswerNetwork(dinov3),
    "SigLIP 2 ViT-B/16, classes": in_transformers(
        "SiglipForImageClassification", {"vision_config": VISION}, INTERPOLATES, task=CLASSES
    ),
    "ConvNeXt V2 tiny, classes": in_transformers(
        "ConvNextV2ForImageClassification", STAGES, task=CLASSES
    ),
    "SigLIP 2 base, texts": in_transformers(
        *("SiglipTextModel", TEXT, (), ("input_ids",), ("pooler_output",)),
        others=(),
        task="feature-extraction",
    ),
    "SigLIP 2 ViT-B/16, pictures and texts": in_transformers(
        *("SiglipModel", {"text_config": TEXT, "vision_config": VISION}, INTERPOLATES),
        takes=("pixel_values", "input_ids"),
        names=("logits_per_image", "text_embeds", "image_embeds"),
        task="zero-shot-image-classification",
    ),
    "Depth Anything V2 small": in_transformers(
        *("DepthAnythingForDepthEstimation", settings_of("depth_anything_v2_vits")),
        names=("predicted_depth",),
        others=SIZES_OF_14,
        task="depth-estimation",
    ),
    "EoMT small on DINOv3": AnswerNetwork(
        eomt, size=(320, 320), others=((320, 256), (192, 320)), task="image-segmentation"
    ),
    # transformers mixes up the windows of what is no square.
    "RF-DETR nano": finder(
        "rf_detr_nano", "RfDetrForObjectDetection", 384, (512, 512), task=DETECTION
    ),
    "RF-DETR nano with masks": finder(
        "rf_detr_seg_nano", "RfDetrForInstanceSegmentation", 312, (384, 384), "pred_masks"
    ),
    "DEIMv2 small on DINOv3": finder(
        "deimv2_s", "Deimv2ForObjectDetection", 320, (256, 384), task=DETECTION
    ),
}
"""By what a page calls them."""


def given(
    network: AnswerNetwork,
    size: Size,
    model: zoo.architectures.base.Network | None,
) -> Arrays:
    """Two pictures, and three texts. With the preprocessing of a model it is photographs, and
    normal numbers otherwise."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 3, *size), np.float32)
    how = model.preprocessing if model is not None else None
    pixels = noise if how is None else pixel_values(photographs(2), how, size)
    both = {"pixel_values": pixels, "input_ids": rng.integers(2, WORDS, (3, LONG))}
    return {name: both[name] for name in network.takes}


def in_torch(made: Made, feeds: Arrays) -> Arrays:
    """What PyTorch computes."""
    with torch.no_grad():
        found = made.module(*map(torch.from_numpy, feeds.values()))
    return dict(zip(made.names, (each.numpy() for each in found), strict=True))


def apart(network: AnswerNetwork, made: Made, file: Path, feeds: Arrays, low: bool = False) -> Row:
    """The largest difference from PyTorch, the largest value, and the least cosine of all outputs.

    Of a network that ranks places PyTorch's numbers for pictures that rounding moves are as right,
    and files of `low` precision are held to what they say of things.
    """
    live, wanted = runtime.session(file), in_torch(made, feeds)
    names = [each.name for each in live.get_outputs() if each.name in made.names]
    masks = {"attention_mask": np.ones((3, LONG), np.int64)}
    taken = {each.name: ({**feeds, **masks})[each.name] for each in live.get_inputs()}
    got: Arrays = dict(zip(names, live.run(names, taken), strict=True))
    wanted = {name: wanted[name] for name in names}
    if network.ranks and low:
        got, wanted = align_detections(got, wanted)
    elif network.ranks:
        moved = [dict(zip(feeds, each, strict=True)) for each in move_inputs({**feeds})]
        wanted = nearest_within_rounding(got, wanted, [in_torch(made, each) for each in moved])
    found = [converter.compare(got[name], wanted[name]) for name in wanted]
    return {
        "max_abs": max(each.max_abs for each in found),
        "largest": max(float(abs(each).max()) for each in wanted.values()),
        "cosine": min(each.cosine for each in found),
    }


def ours(network: AnswerNetwork, made: Made, place: Path) -> dict[str, Row]:
    """The zoo's files: at the size that is timed, and open for the differences at all sizes."""
    model = zoo.from_pretrained(None, made.path)
    size = network.size if "pixel_values" in network.takes else None
    feeds = given(network, network.size, model)
    rows: dict[str, Row] = {}
    for opset in OPSETS:
        file, opened = place / f"zoo-{opset}.onnx", place / f"zoo-{opset}-open.onnx"
        zoo.to_onnx(model, file, opset=opset, size=size, verify=False)
        row = rows[f"zoo, opset {opset}"] = beside(network, made, file, feeds)
        if network.others:
            zoo.to_onnx(model, opened, opset=opset, size="dynamic", verify=False)
        errors = [apart(network, made, opened, given(network, it, None)) for it in network.others]
        row |= max([row, *errors], key=lambda error: error["max_abs"])
    for precision in ("int8", "fp16"):
        file = place / f"zoo-{precision}.onnx"
        source, exact = place / f"zoo-{OPSETS[-1]}.onnx", model.config.task.exact
        derive(source, file, precision, [*feeds.values()], exact=exact)
        row = rows[f"zoo, {precision}"] = beside(network, made, file, feeds, low=True)
        row |= {"ranks": True} if network.ranks else {}
    return rows


def by_torch(network: AnswerNetwork, made: Made, place: Path, opset: int) -> Row:
    """torch.onnx.export with dynamo, the numbers of pictures and texts open; or why it fails."""
    file, feeds = place / f"torch-{opset}.onnx", given(network, network.size, None)
    began = time.process_time()
    try:
        torch.onnx.export(
            made.module,
            tuple(map(torch.from_numpy, feeds.values())),
            file,
            input_names=[*network.takes],
            output_names=[*made.names],
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=tuple({0: torch.export.Dim(f"n{n}")} for n in range(len(feeds))),
            external_data=False,
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        said = [line for line in str(error).splitlines() if line and not line.startswith("(")]
        return {"failed": said[-1][:300]}
    seconds = round(time.process_time() - began, 2)
    return {"processors": seconds} | beside(network, made, file, feeds)


def by_optimum(network: AnswerNetwork, made: Made, place: Path, python: str) -> Row:
    """Optimum's export at opset 18, or why there is none."""
    file = place / "optimum" / "written.onnx"
    file.parent.mkdir(exist_ok=True)
    command = [python, str(MAKERS), "optimum", str(made.path), "", "18", str(file), network.task]
    told = cold(command)
    if "failed" in told:
        return told
    row = beside(network, made, file, given(network, network.size, None))
    return told | row | {"file": f"optimum/{file.name}"}


def beside(network: AnswerNetwork, made: Made, file: Path, feeds: Arrays, low: bool = False) -> Row:
    """Nodes of a file, and how far it is from PyTorch where names are ours."""
    error = apart(network, made, file, feeds, low)
    return counted(file, FUSED) | error | {"file": file.name}


def speed(
    place: Path, rows: Mapping[str, Row], network: AnswerNetwork, asked: argparse.Namespace
) -> Row:
    """All files of a network and the products of the first in turns, the fastest run of each."""
    clock = time.thread_time if asked.busy else time.perf_counter
    feeds = {name: value[:1] for name, value in given(network, network.size, None).items()}
    feeds["attention_mask"] = np.ones((1, LONG), np.int64)
    files = {label: place / row["file"] for label, row in rows.items() if "file" in row}
    live = {label: resting_session(file, THREADS) for label, file in files.items()}
    tasks = {
        label: as_task(each, {it.name: feeds[it.name] for it in each.get_inputs()})
        for label, each in live.items()
    }
    label, file = next(iter(files.items()))
    specs = fix_input_shapes(file, live[label].get_inputs(), 1, network.size)
    products = timed_products(ir.load(file), specs)
    times = measure_interleaved(tasks | product_tasks(products, THREADS), asked.rounds, clock)
    total = compute_floor(products, times).total
    return {
        "products_ms": round(1e3 * total, 3),
        "to_products": {label: round(min(times[label]) / total, 3) for label in tasks},
    }


def measure(label: str, results: Results, asked: argparse.Namespace) -> None:
    """Everything of a network that is not there yet."""
    network, place = NETWORKS[label], asked.files / label.replace(" ", "_").replace("/", "")
    exporters = [f"torch, opset {opset}" for opset in OPSETS]
    exporters += ["Optimum"] if asked.optimum and network.task else []
    if {"zoo", *exporters, "speed"} <= results.content["networks"].get(label, {}).keys():
        return
    shutil.rmtree(place / "checkpoint", ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    made, keys = network.make(place / "checkpoint"), ("networks", label)
    results.fill(*keys, "zoo", make=lambda: ours(network, made, place))
    for opset, exporter in zip(OPSETS, exporters, strict=False):
        results.fill(*keys, exporter, make=lambda o=opset: by_torch(network, made, place, o))
    if "Optimum" in exporters:
        results.fill(
            *(*keys, "Optimum"), make=lambda: by_optimum(network, made, place, asked.optimum)
        )
    found = results.content["networks"][label]
    rows = found["zoo"] | {exporter: found[exporter] for exporter in exporters}
    results.fill(*keys, "speed", make=lambda: speed(place, rows, network, asked))


PEERS = ("zoo, opset 23", "torch, opset 23", "zoo, opset 18", "torch, opset 18", "Optimum")
TIMED = (*PEERS[:2], "zoo, int8", *PEERS[2:])

DIFFERENCES = """The largest difference of any output from PyTorch, beside the largest number of an
output: at the size that is timed, and at two others that are no squares, where PyTorch's network
takes them. The weights are seeded, and the networks as large as published ones. The cosines are the
least of all outputs, on two photographs. A network that finds things ranks places first: what
PyTorch gives for pictures that rounding moves is as right, and low precisions are held to what they
say of things.
"""

NODES = """Nodes of each file, and how many of them are `Attention`, beside those of
`torch.onnx.export(dynamo=True)` and of Optimum.
"""

SPEED = """The fastest run of each file on one picture, one text, and one thread, over that of the
network's matrix products alone, in turns in one process. A ratio can be below 1 in int8 alone.
"""


def tables_of(content: Row) -> Iterator[str]:
    """The tables, and where they were measured."""
    networks = {name: row for name, row in content["networks"].items() if "speed" in row}
    yield DIFFERENCES
    yield from table(
        ["network", "opset 18", "opset 23", "largest number", "int8, cosine", "fp16, cosine"],
        [[name, *differences(found["zoo"])] for name, found in networks.items()],
    )
    yield NODES
    rows = {name: {**found["zoo"], **found} for name, found in networks.items()}
    shown = [[name, *(nodes(row.get(peer, {})) for peer in PEERS)] for name, row in rows.items()]
    yield from table(["nodes", *PEERS], shown)
    yield SPEED
    yield from table(
        ["time over products", *TIMED, "products, ms"],
        [[name, *times(found["speed"])] for name, found in networks.items()],
    )
    yield from failures(networks)
    versions = ", ".join(f"{name} {told}" for name, told in content["versions"].items())
    peers = "; ".join(dict.fromkeys(content["peers"].values()))
    yield f"Measured on {content['date']}: {content['machine']}; {versions}; beside {peers}."
    yield f"\n**{content['note']}**" if content["note"] else ""


def failures(networks: Row) -> Iterator[str]:
    """Which exporters write no file of which networks, and why."""
    for name, found in networks.items():
        for peer in PEERS:
            if told := found.get(peer, {}).get("failed"):
                why = told.replace("`", "").partition(". ")[0].partition(", but")[0]
                yield f"* {peer} writes no file of {name}: `{why}`"
    yield ""


def differences(found: Row) -> Iterator[str]:
    """At both opsets, and of the lower precisions."""
    files = [found["zoo, opset 18"], found["zoo, opset 23"]]
    yield from (number(row["max_abs"], ".1e") for row in files)
    yield number(max(row["largest"] for row in files), ".3g")
    yield from (number(found[f"zoo, {name}"]["cosine"], ".6f") for name in ("int8", "fp16"))


def nodes(row: Row) -> str:
    """How many, and how many of them are attention; nothing of a file that there is not."""
    if "nodes" not in row:
        return ""
    count = row["fused"].get("Attention")
    return f"{row['nodes']:,}" + (f" ({count})" if count else "")


def times(found: Row) -> Iterator[str]:
    """Ratios of the files, and the milliseconds of the products."""
    yield from (number(found["to_products"].get(name), ".2f") for name in TIMED)
    yield number(found["products_ms"], ".1f")


def main() -> None:
    asked = arguments(__doc__, ".cache/answers", 10, "networks", NETWORKS).parse_args()
    torch.set_num_threads(THREADS)
    pythons = {"torch": sys.executable} | ({"optimum": asked.optimum} if asked.optimum else {})
    results = Results(asked.json, header(asked.busy, pythons) | {"networks": {}})
    for label in asked.networks:
        measure(label, results, asked)
    PAGE.write_text(with_part(PAGE.read_text(), "answers", tables_of(results.content)))


if __name__ == "__main__":
    main()
