"""Which of several ways to write the same thing ONNX Runtime runs fastest.

    python benchmarks/forms.py [--threads 2] [--rounds 40]

A block of a ConvNeXt behind its depthwise convolution, [1, C, H, H] to the same: a LayerNorm over
the channels, a product to four times as many, GELU and a product back.

* `convolutions`: the LayerNorm between two transpositions, the products as 1x1 convolutions. What
  the converter writes.
* `products`: all of it channels-last, between two transpositions.
* `in place`: the LayerNorm as a formula over the channels where they are, and no transposition.

All forms run in every round; the fastest run of each counts, over that of the first.
"""

import argparse

import numpy as np
import onnx_ir as ir

from zoo.bench.rounds import interleave, resting_session, run_once

SIZES = {24: 96, 12: 192, 6: 384, 3: 768, 56: 96, 28: 192, 14: 384, 7: 768}
"""Channels by height and width: the stages of ConvNeXt-T at 96 and at 224."""

Tape = ir.tape.Tape


def weights(channels: int) -> dict[str, np.ndarray]:
    """Of both products, and of the norm."""
    rng = np.random.default_rng(0)
    wide = 4 * channels
    shapes = {"up": (channels, wide), "up_bias": (wide,), "down": (wide, channels)}
    shapes |= {name: (channels,) for name in ("down_bias", "scale", "shift")}
    return {name: rng.standard_normal(s, np.float32) / 20 for name, s in shapes.items()}


def constants(tape: Tape, arrays: dict[str, np.ndarray]) -> dict[str, ir.Value]:
    """Initializers of the form to be written."""
    return {name: tape.initializer(ir.tensor(a, name=name)) for name, a in arrays.items()}


def normalised(tape: Tape, x: ir.Value, w: dict[str, ir.Value]) -> ir.Value:
    """Channels-last, behind the norm."""
    last = tape.op("Transpose", [x], {"perm": [0, 2, 3, 1]})
    return tape.op("LayerNormalization", [last, w["scale"], w["shift"]], {"axis": -1})


def between(tape: Tape, x: ir.Value, w: dict[str, ir.Value]) -> ir.Value:
    """Both products as convolutions, channels first."""
    wide = tape.op("Gelu", [tape.op("Conv", [x, w["up"], w["up_bias"]])])
    return tape.op("Conv", [wide, w["down"], w["down_bias"]])


def kernels(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The matrices as kernels of 1x1 convolutions."""
    turned = {name: arrays[name].T[..., None, None].copy() for name in ("up", "down")}
    return {**arrays, **turned}


def convolutions(tape: Tape, x: ir.Value, arrays: dict[str, np.ndarray]) -> ir.Value:
    w = constants(tape, kernels(arrays))
    first = tape.op("Transpose", [normalised(tape, x, w)], {"perm": [0, 3, 1, 2]})
    return between(tape, first, w)


def products(tape: Tape, x: ir.Value, arrays: dict[str, np.ndarray]) -> ir.Value:
    w = constants(tape, arrays)
    wide = tape.op("MatMul", [normalised(tape, x, w), w["up"]])
    wide = tape.op("Gelu", [tape.op("Add", [wide, w["up_bias"]])])
    y = tape.op("Add", [tape.op("MatMul", [wide, w["down"]]), w["down_bias"]])
    return tape.op("Transpose", [y], {"perm": [0, 3, 1, 2]})


def in_place(tape: Tape, x: ir.Value, arrays: dict[str, np.ndarray]) -> ir.Value:
    """The scale and the shift of the norm would be folded into the product behind it."""
    epsilon = {"epsilon": np.array(1e-6, np.float32), "axes": np.array([1])}
    w = constants(tape, kernels(arrays) | epsilon)
    centred = tape.op("Sub", [x, tape.op("ReduceMean", [x, w["axes"]])])
    square = tape.op("Mul", [centred, centred])
    variance = tape.op("Add", [tape.op("ReduceMean", [square, w["axes"]]), w["epsilon"]])
    return between(tape, tape.op("Div", [centred, tape.op("Sqrt", [variance])]), w)


FORMS = {"convolutions": convolutions, "products": products, "in place": in_place}


def model(form: str, channels: int, size: int) -> bytes:
    """A file with one form in it."""
    tape = Tape()
    shape = ir.Shape([1, channels, size, size])
    x = ir.val("x", ir.DataType.FLOAT, shape)
    y = FORMS[form](tape, x, weights(channels))
    y.name, y.dtype, y.shape = "y", ir.DataType.FLOAT, shape
    graph = ir.Graph(
        [x], [y], nodes=tape.nodes, initializers=tape.initializers, opset_imports={"": 23}
    )
    return ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    print(f"{'C x H x W':16}" + "".join(f"{form:>16}" for form in FORMS) + f"{'ms':>10}")
    for size, channels in SIZES.items():
        x = np.random.default_rng(1).standard_normal((1, channels, size, size), np.float32)
        live = {f: resting_session(model(f, channels, size), asked.threads) for f in FORMS}
        times = interleave({f: run_once(each, {"x": x}) for f, each in live.items()}, asked.rounds)
        first = min(times["convolutions"])
        ratios = "".join(f"{min(times[form]) / first:16.2f}" for form in FORMS)
        print(f"{channels:4} x {size:2} x {size:2}   {ratios}{1e3 * first:10.2f}", flush=True)


if __name__ == "__main__":
    main()
