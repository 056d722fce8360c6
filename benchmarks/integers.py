"""What int8 files could be besides what they are: the time of their operators, and their cosine.

    python benchmarks/integers.py [--model dinov3_vits16] [--batch 1] [--threads 2] [--rounds 25]

The sum of each operator's fastest run, over that of the float32 file's matrix products and
convolutions, so that a busy machine changes little. The cosine is the least of all outputs, on the
photograph.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

import converter
import zoo
from benchmarks.kernels import profiled
from zoo.export.precision import derive
from zoo.export.quantise.columns import LARGEST_INTEGER
from zoo.export.quantise.fixed_columns import ActivationRange
from zoo.export.quantise.parameters import added
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    how = zoo.info(asked.model).preprocessing
    pixels = pixel_values(photographs(1), how, how.size)
    noise = np.random.default_rng(0).standard_normal((asked.batch, 3, *how.size), np.float32)
    with tempfile.TemporaryDirectory() as name:
        files = variants(Path(name), asked.model, pixels)
        times = profiled(files, asked.threads, asked.rounds, noise)
        wanted = converter.run(files["float32"], [pixels])
        floor = sum(times["float32"].get(kind, 0) for kind in PRODUCTS)
        print(f"products and convolutions in float32: {floor:.2f} ms")
        for name, kinds in times.items():
            cosine = least_cosine(converter.run(files[name], [pixels]), wanted)
            shown = ", ".join(f"{kind} {time:.2f}" for kind, time in [*kinds.items()][:8])
            print(f"{sum(kinds.values()) / floor:.3f}  {cosine:.5f}  {name}: {shown}")


if __name__ == "__main__":
    main()
