"""int8 files beside float32: how fast they are, how far apart, and what else they could be.

    python benchmarks/integers.py operators [--model dinov3_vits16] [--rounds 20]
    python benchmarks/integers.py scales [--model dinov3_vits16] [--rounds 20]
    python benchmarks/integers.py calibration [--model dinov3_vits16] [--rounds 20]

Weights are seeded. Cosines are the least of all outputs.

`operators`: the sum of each operator's fastest run on two threads, over that of the float32 file's
matrix products and convolutions, so that a busy machine changes little.

`scales`: one for each tensor or each row. Times over those of float32, the cosine on noise, and how
far an output of the first image moves when others stand beside it; one thread, whose own time is
taken.

`calibration`: by how activations are ranged. 512 of the digits that `vit_digits` was trained on are
written to a folder as pictures, and ranges are measured on them as `zoo export --calibrate` does.
All files then read the digits that were held out from training. The second table has the same files
of a larger model, ranged on photographs, in ONNX Runtime and in OpenVINO. Times are the fastest run
on one image, on two threads, over that of the same runtime in float32; of the digits, 64 at once.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import onnx_ir as ir
import openvino as ov
from PIL import Image

import converter
import zoo
from benchmarks.kernels import profiled
from benchmarks.pages import table
from weights.progress import Quiet
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.digits.data import split_digits
from zoo.export.calibrate.candidates import Calibrator
from zoo.export.calibrate.ranges import widest, write_fixed
from zoo.export.precision import derive
from zoo.export.quantise.columns import LARGEST_INTEGER
from zoo.export.quantise.fixed_columns import ActivationRange
from zoo.export.quantise.parameters import added
from zoo.images.photograph import photographs
from zoo.images.picture_folder import read_picture_folder
from zoo.images.pixel_values import pixel_values

THREADS, PICTURES, BATCHES = 2, 512, (1, 8)
PRODUCTS = ("MatMul", "Gemm", "FusedGemm", "Conv")
OPSETS = {"": 23, ", opset 18": 18}


def least_cosine(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """Of all outputs."""
    return min(converter.compare(got[name], wanted[name]).cosine for name in wanted)


def convolve_in_integers(model: ir.Model, ranges: list[list[ActivationRange]]) -> None:
    """Convolutions between tensors of eight bits, whose ranges a photograph gave."""
    graph = model.graph

    def held(value: ir.Value, name: str, found: ActivationRange) -> tuple[list[ir.Node], ir.Value]:
        """A value in eight bits and back."""
        ends = [added(graph, f"{name}_{i}", np.asarray(x)) for i, x in
                enumerate((found.step, found.zero))]  # fmt: skip
        levels = ir.node("QuantizeLinear", [value, *ends])
        floats = ir.node("DequantizeLinear", [*levels.outputs, *ends])
        return [levels, floats], floats.outputs[0]

    convolutions = [each for each in graph if each.op_type == "Conv"]
    for node, (taken, given) in zip(convolutions, ranges, strict=True):
        x, weight, bias = node.inputs
        (result,) = node.outputs
        before, operand = held(x, f"{weight.name}_taken", taken)
        largest = abs(weight.const_value.numpy()).max((1, 2, 3))
        scale = np.maximum(largest, np.float32(1e-9)) / np.float32(LARGEST_INTEGER)
        parts = []
        for part, steps, dtype in ((weight, scale, np.int8), (bias, scale * taken.step, np.int32)):
            numbers = part.const_value.numpy()
            levels = np.rint(numbers / steps.reshape(-1, *(1,) * (numbers.ndim - 1)))
            stored = [added(graph, f"{part.name}_integers", levels.astype(dtype)),
                      added(graph, f"{part.name}_steps", steps)]  # fmt: skip
            parts.append(ir.node("DequantizeLinear", stored, {"axis": 0}))
        conv = ir.node("Conv", [operand, *(p.outputs[0] for p in parts)], node.attributes)
        after, new = held(conv.outputs[0], f"{weight.name}_given", given)
        graph.insert_before(node, [*before, *parts, conv, *after])
        new.type, new.shape = result.type, result.shape
        ir.convenience.replace_all_uses_with(result, new)
        graph.remove(node, safe=True)


def convolved(source: Path, pixels: np.ndarray) -> list[list[ActivationRange]]:
    """From which number to which the operand and the result of every convolution are."""
    model = ir.load(source)
    ends = [(n.inputs[0], n.outputs[0]) for n in model.graph if n.op_type == "Conv"]
    model.graph.outputs.clear()
    model.graph.outputs.extend({v.name: v for pair in ends for v in pair if v.producer()}.values())
    seen = {model.graph.inputs[0].name: pixels, **converter.run(model, [pixels])}
    return [
        [
            ActivationRange(float(min(seen[v.name].min(), 0)), float(seen[v.name].max()))
            for v in pair
        ]
        for pair in ends
    ]


def variants(folder: Path, name: str, pixels: np.ndarray) -> dict[str, Path]:
    """All files by what is tried in them, the float32 one first."""
    model, files = zoo.from_pretrained(name, weights="random"), {}
    for words, opset in OPSETS.items():
        for kind in ("float32", "int8"):
            files[kind + words] = folder / f"{kind}-{opset}.onnx"
        zoo.to_onnx(model, files[f"float32{words}"], opset=opset, verify=False)
        derive(files[f"float32{words}"], files[f"int8{words}"], "int8", [pixels])
    made = ir.load(files["int8"])
    convolve_in_integers(made, convolved(files["float32"], pixels))
    files["convolutions in integers"] = folder / "convolutions.onnx"
    converter.save(made, files["convolutions in integers"])
    return files


def operators(name: str, rounds: int, folder: Path) -> None:
    """Print the time of the operators of each file."""
    how = zoo.info(name).preprocessing
    pixels = pixel_values(photographs(1), how, how.size)
    noise = np.random.default_rng(0).standard_normal(pixels.shape, np.float32)
    files = variants(folder, name, pixels)
    times = profiled(files, THREADS, rounds, noise)
    wanted = converter.run(files["float32"], [pixels])
    floor = sum(times["float32"].get(kind, 0) for kind in PRODUCTS)
    print(f"products and convolutions in float32: {floor:.2f} ms")
    for file, kinds in times.items():
        cosine = least_cosine(converter.run(files[file], [pixels]), wanted)
        shown = ", ".join(f"{kind} {time:.2f}" for kind, time in [*kinds.items()][:8])
        print(f"{sum(kinds.values()) / floor:.3f}  {cosine:.5f}  {file}: {shown}")


def scales(name: str, rounds: int, folder: Path) -> None:
    """Print the table of scales."""
    side = zoo.info(name).preprocessing.size
    pixels = np.random.default_rng(0).standard_normal((max(BATCHES), 3, *side), np.float32)
    files = {each: folder / f"{each}.onnx" for each in ("float32", "tensor", "row")}
    model = zoo.from_pretrained(name, weights="random")
    zoo.to_onnx(model, files["float32"], size="dynamic", opset=23, verify=False)
    for each in ("tensor", "row"):
        derive(files["float32"], files[each], "int8", [pixels[:1]], scales=each)
    live = {each: resting_session(file, 1) for each, file in files.items()}
    rows = []
    for batch in BATCHES:
        tasks = {it: run_once(each, {"pixel_values": pixels[:batch]}) for it, each in live.items()}
        times = interleave(tasks, rounds, time.process_time)
        got = {it: converter.run(each, [pixels[:batch]]) for it, each in live.items()}
        for each in ("tensor", "row"):
            alone = converter.run(live[each], [pixels[:1]])
            moved = max(abs(alone[key] - value[:1]).max() for key, value in got[each].items())
            ratio = median(times[each]) / median(times["float32"])
            cosine = least_cosine(got[each], got["float32"])
            rows.append([each, str(batch), f"{ratio:.2f}", f"{cosine:.5f}", f"{moved:.2g}"])
    print(*table(["scales", "batch", "time", "cosine", "moves by"], rows), sep="\n")


def calibration(name: str, rounds: int, folder: Path) -> None:
    """Print the tables of the digits, and of runtimes."""
    seen, apart = split_digits()
    how = zoo.info("vit_digits").preprocessing
    shown = [*map(Image.fromarray, seen.images[:PICTURES])]
    files = files_of(zoo.from_pretrained("vit_digits"), "vit_digits", shown, folder / "digits")
    pixels = pixel_values([*map(Image.fromarray, apart.images)], how, how.size)
    found = {way: converter.run(file, [pixels]) for way, file in files.items()}
    taken, rows = times(files, pixels[:64], rounds), []
    for way, got in found.items():
        right = (got["logits"].argmax(-1) == apart.labels).mean()
        cosine, size = least_cosine(got, found["float32"]), files[way].stat().st_size
        rows.append([way, f"{right:.2%}", f"{cosine:.5f}", f"{size:,}", taken[way][0]])
    print(*table(["activations", "held-out digits", "cosine", "bytes", "time"], rows), sep="\n")
    how, several = zoo.info(name).preprocessing, photographs(8)
    model = zoo.from_pretrained(name, weights="random")
    files = files_of(model, name, several, folder / "pictures")
    taken = times(files, pixel_values(several[:1], how, how.size), rounds)
    rows = [[way, *ratios] for way, ratios in taken.items()]
    print(*table(["activations", "ONNX Runtime", "OpenVINO"], rows), sep="\n")


def files_of(model: object, name: str, pictures: Sequence[Image.Image], place: Path):
    """The float32 file, and those in int8; the pictures lie beside them."""
    place.mkdir()
    files = {way: place / f"{way}.onnx" for way in ("float32", "dynamic", "minmax")}
    how, source = zoo.info(name).preprocessing, files["float32"]
    zoo.to_onnx(model, source, verify=False)
    for index, picture in enumerate(pictures):
        picture.save(place / f"{index:04}.png")
    derive(source, files["dynamic"], "int8", [pixel_values(photographs(1), how, how.size)])
    calibrator = Calibrator(read_picture_folder(place), how, how.size, 1)
    seen = calibrator.ranges(source, Quiet())
    means = {name: each.means for name, each in seen.items()}
    write_fixed(source, files["minmax"], widest(seen), means)
    return files


def times(files: Mapping[str, Path], pixels: np.ndarray, rounds: int) -> dict[str, list[str]]:
    """Fastest runs over those of float32, in ONNX Runtime and in OpenVINO."""
    core, settings = ov.Core(), {"INFERENCE_NUM_THREADS": THREADS}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    tasks = {}
    for way, file in files.items():
        tasks[way, 0] = run_once(resting_session(file, THREADS), {"pixel_values": pixels})
        request = core.compile_model(file, "CPU", settings).create_infer_request()
        tasks[way, 1] = partial(request.infer, {0: pixels})
    found = {key: min(each) for key, each in interleave(tasks, rounds).items()}
    return {way: [f"{found[way, n] / found['float32', n]:.2f}" for n in (0, 1)] for way in files}


TABLES = {"operators": operators, "scales": scales, "calibration": calibration}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        TABLES[asked.table](asked.model, asked.rounds, Path(folder))


if __name__ == "__main__":
    main()
