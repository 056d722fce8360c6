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
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
import torch

import converter
import zoo
from benchmarks.answer_networks import LONG, NETWORKS, WORDS, AnswerNetwork, Made, Size
from benchmarks.answer_table import with_answers
from benchmarks.peers import MAKERS, Results, Row, arguments, cold, counted, header
from zoo import runtime
from zoo.answers.boxes import as_answered
from zoo.architectures.kinds import architecture_of
from zoo.bench import floor
from zoo.bench.bench_options import BenchOptions
from zoo.bench.inputs import settle_inputs
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.bench.timed_products import timed_products
from zoo.export.precision import derive
from zoo.export.verify import moved_inputs, within_rounding
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "answers.md"
OPSETS = (18, 23)
FUSED = ("Attention", "RotaryEmbedding", "LayerNormalization", "Gelu", "GridSample")
THREADS = 1

Arrays = Mapping[str, np.ndarray]


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
        got, wanted = as_answered(got, wanted)
    elif network.ranks:
        moved = [dict(zip(feeds, each, strict=True)) for each in moved_inputs({**feeds})]
        wanted = within_rounding(got, wanted, [in_torch(made, each) for each in moved])
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
        source, exact = place / f"zoo-{OPSETS[-1]}.onnx", architecture_of(model.config).exact
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
        label: run_once(each, {it.name: feeds[it.name] for it in each.get_inputs()})
        for label, each in live.items()
    }
    label, file = next(iter(files.items()))
    options = BenchOptions(batch=1, size=network.size)
    specs = settle_inputs(file, live[label].get_inputs(), options)
    products = timed_products(ir.load(file), specs)
    times = interleave(tasks | floor.tasks(products, THREADS), asked.rounds, clock)
    total = floor.floor(products, times).total
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


def main() -> None:
    asked = arguments(__doc__, ".cache/answers", 10, "networks", NETWORKS).parse_args()
    torch.set_num_threads(THREADS)
    pythons = {"torch": sys.executable} | ({"optimum": asked.optimum} if asked.optimum else {})
    results = Results(asked.json, header(asked.busy, pythons) | {"networks": {}})
    for label in asked.networks:
        measure(label, results, asked)
    PAGE.write_text(with_answers(PAGE.read_text(), results.content))


if __name__ == "__main__":
    main()
