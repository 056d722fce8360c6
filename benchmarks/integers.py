"""What int8 files could be besides what they are: the time of their operators, and their cosine.

    python benchmarks/integers.py [--model dinov3_vits16] [--batch 1] [--threads 2] [--rounds 25]

The sum of each operator's fastest run, over that of the float32 file's matrix products and
convolutions, so that a busy machine changes little. The cosine is the least of all outputs, on the
photograph. `tensors` are the activations'.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

import converter
import zoo
from weights import random_weights
from zoo.architectures.builder import abstract
from zoo.checkpoints.load import model_shapes
from zoo.export.make import convert_model
from zoo.export.quantise.blocks import BLOCK_SIZE, Blocks
from zoo.export.quantise.columns import LARGEST_INTEGER, Columns
from zoo.export.quantise.fixed_columns import ActivationRange, FixedColumns
from zoo.export.quantise.matrices import quantise
from zoo.export.quantise.means import means
from zoo.export.quantise.parameters import added
from zoo.export.quantise.products import Codec, Floats, Product, products
from zoo.export.quantise.smooth_quant import even_out
from zoo.export.request import Signature
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values

CONTRIB = "com.microsoft"


class AllBits(Columns):
    """Weights of eight bits, which processors without VNNI add wrongly."""

    def scales(self, matrix: Floats) -> Floats:
        return super().scales(matrix) * np.float32(LARGEST_INTEGER / 127)


class Fixed(Columns):
    """Scales of the activations that a photograph gave, before the file runs."""

    domain = CONTRIB

    def __init__(self, graph: ir.Graph, ranges: Mapping[str, tuple[float, float]]) -> None:
        self.graph, self.ranges = graph, ranges

    def nodes(self, product: Product, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        low, high = self.ranges[product.name]
        step = np.float32((high - low) / 255)
        zero = np.uint8(np.clip(np.rint(-low / step), 0, 255))
        known = [added(self.graph, f"{product.name}_{i}", np.asarray(x)) for i, x in
                 enumerate((step, zero))]  # fmt: skip
        levels = ir.node("QuantizeLinear", [product.left, *known])
        operands = [levels.outputs[0], integers, known[0], scales, known[1]]
        return [levels, ir.node("MatMulIntegerToFloat", operands, domain=CONTRIB)]


def pairs(source: Path, pixels: np.ndarray) -> Callable[[ir.Model], Codec]:
    """The same ranges in the standard's operators, which `--calibrate` writes."""
    found = fixed(source, pixels)(ir.load(source)).ranges
    return lambda lower: FixedColumns(
        lower.graph, {name: ActivationRange(*map(float, ends)) for name, ends in found.items()}
    )


class EightInBlocks(Blocks):
    """Weights of eight bits in blocks of 32, activations quantised by blocks as well."""

    def stored(self, inputs: int, outputs: int) -> tuple[int, ...]:
        return outputs, -(-inputs // BLOCK_SIZE), BLOCK_SIZE

    def scales(self, matrix: Floats) -> Floats:
        return np.maximum(abs(self._blocks(matrix)).max(-1), 1e-9) / np.float32(127)

    def integers(self, matrix: Floats, scales: Floats) -> np.ndarray:
        return (np.rint(self._blocks(matrix) / scales[..., None]) + 128).astype(np.uint8)

    def rounded(self, matrix: Floats, scales: Floats) -> Floats:
        found = np.rint(self._blocks(matrix) / scales[..., None]) * scales[..., None]
        return found.reshape(matrix.shape[1], -1).T[: len(matrix)]

    def nodes(self, product: Product, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        (node,) = super().nodes(product, integers, scales)
        node.attributes["bits"] = ir.AttrInt64("bits", 8)
        return [node]

    def _blocks(self, matrix: Floats) -> Floats:
        filled = np.pad(matrix, ((0, -len(matrix) % BLOCK_SIZE), (0, 0)))
        return np.ascontiguousarray(filled.T).reshape(matrix.shape[1], -1, BLOCK_SIZE)


def attend_in_integers(model: ir.Model) -> None:
    """Both products of 3-D attention between tensors of eight bits, the softmax in float32."""
    graph = model.graph
    model.opset_imports[CONTRIB] = 1
    step, zero = (added(graph, f"share_{i}", np.asarray(x)) for i, x in
                  enumerate((np.float32(1 / 255), np.uint8(0))))  # fmt: skip
    for number, node in enumerate([n for n in graph if n.op_type == "Attention"]):
        heads, (result,) = node.attributes["q_num_heads"].as_int(), node.outputs
        width = int(node.inputs[0].shape[2]) // heads
        split = added(graph, f"split_{number}", np.array([0, 0, heads, width]))
        whole = added(graph, f"whole_{number}", np.array([0, 0, heads * width]))
        scale = added(graph, f"root_{number}", np.asarray(np.float32(width**-0.5)))
        nodes: list[ir.Node] = []

        def put(op: str, *inputs: ir.Value, _nodes: list[ir.Node] = nodes, **more: object):
            domain = CONTRIB if op == "MatMulIntegerToFloat" else ""
            _nodes.append(ir.node(op, inputs, more, domain=domain))
            return _nodes[-1].outputs[0]

        sides = []
        for value, order in zip(node.inputs, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)),
                                strict=True):  # fmt: skip
            nodes.append(ir.node("DynamicQuantizeLinear", [value], num_outputs=3))
            levels, *rest = nodes[-1].outputs
            sides.append((put("Transpose", put("Reshape", levels, split), perm=order), *rest))
        (q, qs, qz), (k, ks, kz), (v, vs, vz) = sides
        scores = put("MatMulIntegerToFloat", q, k, qs, put("Mul", ks, scale), qz, kz)
        shares = put("QuantizeLinear", put("Softmax", scores, axis=-1), step, zero)
        mixed = put("MatMulIntegerToFloat", shares, v, step, vs, zero, vz)
        new = put("Reshape", put("Transpose", mixed, perm=(0, 2, 1, 3)), whole)
        graph.insert_before(node, nodes)
        new.type, new.shape = result.type, result.shape
        ir.convenience.replace_all_uses_with(result, new)
        graph.remove(node, safe=True)


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
        matrix = weight.const_value.numpy().reshape(len(weight.const_value.numpy()), -1)
        scale = np.maximum(abs(matrix).max(1), 1e-9).astype(np.float32) / np.float32(
            LARGEST_INTEGER
        )
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


def lowered(source: Path, pixels: np.ndarray, codec: Callable[[ir.Model], Codec]) -> ir.Model:
    """A float32 file with matrices as a codec holds them."""
    averages, model = means(ir.load(source), [pixels]), ir.load(source)
    factors = even_out(model)
    found = {name: mean / factors.get(name, 1) for name, mean in averages.items()}
    quantise(model, codec(model), found)
    return model


def fixed(source: Path, pixels: np.ndarray) -> Callable[[ir.Model], Codec]:
    """With the ranges of the evened model's activations."""
    model = ir.load(source)
    even_out(model)
    left = {each.name: each.left for each in products(model.graph)}
    model.graph.outputs.clear()
    model.graph.outputs.extend(dict.fromkeys(left.values()))
    seen = converter.run(model, [pixels])
    ranges = {name: (min(seen[v.name].min(), 0), seen[v.name].max()) for name, v in left.items()}
    return lambda lower: Fixed(lower.graph, ranges)


def variants(folder: Path, model: str, pixels: np.ndarray) -> dict[str, Path]:
    """All files by what is tried in them, the float32 one first."""
    entry = zoo.info(model)
    values = random_weights(model_shapes(entry.config)).arrays
    sources = {}
    for name, opset, layout in (("3-D", 23, "3d"), ("4-D", 23, "4d"), ("18", 18, "4d")):
        sources[name] = folder / f"float32-{name}.onnx"
        signature = Signature(entry.preprocessing.size, None)
        convert_model(abstract(entry.config), opset, signature, layout).save(sources[name], values)
    source = sources["3-D"]

    def columns(_: ir.Model) -> Codec:
        return Columns()

    made = {"as it is": lowered(source, pixels, columns)}
    made["4-D attention"] = lowered(sources["4-D"], pixels, columns)
    made["opset 18"] = lowered(sources["18"], pixels, columns)
    made["all eight bits"] = lowered(source, pixels, lambda _: AllBits())
    made["fixed scales of tensors"] = lowered(source, pixels, fixed(source, pixels))
    made["the same, QuantizeLinear"] = lowered(source, pixels, pairs(source, pixels))
    made["eight bits in blocks"] = lowered(source, pixels, lambda _: EightInBlocks())
    made["four bits in blocks"] = lowered(source, pixels, lambda _: Blocks())
    made["attention in integers"] = lowered(source, pixels, columns)
    attend_in_integers(made["attention in integers"])
    made["convolutions in integers"] = lowered(source, pixels, columns)
    convolve_in_integers(made["convolutions in integers"], convolved(source, pixels))
    files = {"float32": source} | {name: folder / f"{name}.onnx" for name in made}
    for name, each in made.items():
        converter.save(each, files[name])
    return files


def operators(files: Mapping[str, Path], batch: int, threads: int, rounds: int, folder: Path):
    """Milliseconds of every file's operators, each in its fastest run, by kind."""
    live = {}
    for name, file in files.items():
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        live[name] = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    (taken,) = next(iter(live.values())).get_inputs()
    sides = [side if isinstance(side, int) else batch for side in taken.shape]
    fed = {taken.name: np.random.default_rng(0).standard_normal(sides, np.float32)}
    for _ in range(rounds):
        for each in live.values():
            each.run(None, fed)
    return {name: _fastest(Path(each.end_profiling())) for name, each in live.items()}


def _fastest(profile: Path) -> dict[str, float]:
    runs = defaultdict(list)
    for event in json.loads(profile.read_text()):
        if event["name"].endswith("_kernel_time"):
            runs[event["args"]["op_name"], event["name"]].append(event["dur"] / 1e3)
    kinds: dict[str, float] = defaultdict(float)
    for (kind, _), durations in runs.items():
        kinds[kind] += min(durations)
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="dinov3_vits16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    how = zoo.info(asked.model).preprocessing
    pixels = pixel_values(photographs(1), how, how.size)
    with tempfile.TemporaryDirectory() as name:
        files = variants(Path(name), asked.model, pixels)
        times = operators(files, asked.batch, asked.threads, asked.rounds, Path(name))
        wanted = converter.run(files["float32"], [pixels])
        floor = sum(times["float32"][kind] for kind in ("MatMul", "Gemm", "FusedGemm", "Conv"))
        print(f"products and convolutions in float32: {floor:.2f} ms")
        for name, kinds in times.items():
            got = converter.run(files[name], [pixels])
            cosine = min(converter.compare(got[key], wanted[key]).cosine for key in wanted)
            most = sorted(kinds.items(), key=lambda item: -item[1])[:8]
            shown = ", ".join(f"{kind} {time:.2f}" for kind, time in most)
            print(f"{sum(kinds.values()) / floor:.3f}  {cosine:.5f}  {name}: {shown}")


if __name__ == "__main__":
    main()
