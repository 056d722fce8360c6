"""Which of several ways to write a vision transformer's block ONNX Runtime runs fastest.

    python benchmarks/block_forms.py [--batch 1] [--threads 2] [--rounds 40]

A block of DINOv3 ViT-S/16 at 224, [B, 201, 384] to the same, at opset 23. `as written` is what the
converter writes with 3-D attention; every other form differs from it in what its name says.

All forms run in every round. A form's time is the sum of its kernels' fastest times, over that of
the first form, as ONNX Runtime's profile has them: a kernel is short enough to have both cores to
itself now and then, also on a busy machine, where a whole run hardly ever is. Behind it in brackets
is what `benchmarks/noted.py` says, on 1 and on 2 threads of two machines.
"""

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from kernels import kernels, session
from noted import FORMS as NOTED

from zoo.bench.rounds import interleave, run_once

TOKENS, WIDTH, HEADS = 201, 384, 6
HEAD = WIDTH // HEADS


@dataclass(frozen=True)
class Form:
    """How a block is written."""

    opset: int = 23
    gemm: bool = False  # on [batch * tokens, width], instead of MatMul + Add
    products: int = 1  # for queries, keys and values
    flat: bool = True  # 3-D attention
    turned: bool = False  # 4-D attention whose parts are turned together, and not one by one
    row: bool = False  # the bias before GELU is [1, width]: no BiasGelu is made of it
    divided: bool = True  # GELU below opset 20 divides by the root of two
    last: bool = False  # a norm behind the block that nothing else reads


DEFAULT = Form()
OLD = replace(DEFAULT, opset=18, flat=False, turned=True)
FORMS = {
    "as written": DEFAULT,
    "Gemm": replace(DEFAULT, gemm=True),
    "three products": replace(DEFAULT, products=3),
    "Gemm, three products": replace(DEFAULT, gemm=True, products=3),
    "no BiasGelu": replace(DEFAULT, row=True),
    "4-D": replace(DEFAULT, flat=False, turned=True),
    "4-D, one by one": replace(DEFAULT, flat=False),
    "opset 18": OLD,
    "opset 18, x * 0.707": replace(OLD, divided=False),
    "last block": replace(DEFAULT, last=True),
    "last block, Gemm": replace(DEFAULT, gemm=True, last=True),
}


class Block:
    """Writes one block."""

    def __init__(self, form: Form, batch: int) -> None:
        self.form, self.batch = form, batch
        self.tape, self.rng = ir.tape.Tape(), np.random.default_rng(0)
        self.constants: dict[str, ir.Value] = {}

    def op(self, name: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        return self.tape.op(name, list(inputs), attributes)

    def constant(self, name: str, array: np.ndarray) -> ir.Value:
        if name not in self.constants:
            self.constants[name] = self.tape.initializer(ir.tensor(array, name=name))
        return self.constants[name]

    def ints(self, *numbers: int) -> ir.Value:
        return self.constant("_".join(map(str, numbers)), np.array(numbers))

    def drawn(self, name: str, *shape: int) -> ir.Value:
        return self.constant(name, self.rng.standard_normal(shape, np.float32) / 20)

    def number(self, number: float) -> ir.Value:
        return self.constant(str(number), np.array(number, np.float32))

    def norm(self, x: ir.Value, name: str) -> ir.Value:
        scale, shift = self.drawn(f"{name}.scale", WIDTH), self.drawn(f"{name}.shift", WIDTH)
        return self.op("LayerNormalization", x, scale, shift, axis=-1)

    def linear(
        self, x: ir.Value, name: str, before: int, after: int, row: bool = False
    ) -> ir.Value:
        weight = self.drawn(name, before, after)
        bias = self.drawn(f"{name}.bias", *([1] if row else []), after)
        if self.form.gemm:
            return self.op("Gemm", x, weight, bias)
        return self.op("Add", self.op("MatMul", x, weight), bias)

    def shaped(self, x: ir.Value, *shape: int) -> ir.Value:
        return self.op("Reshape", x, self.ints(*shape))

    def parts(self, x: ir.Value) -> list[ir.Value]:
        """Queries, keys and values, [B, tokens, width] or [B, heads, tokens, head]."""
        count = 3 // self.form.products
        sides = [self.linear(x, f"qkv{i}", WIDTH, count * WIDTH) for i in range(self.form.products)]
        if self.form.turned:
            whole = self.shaped(sides[0], -1, TOKENS, 3, HEADS, HEAD)
            turned = self.op("Transpose", whole, perm=[2, 0, 3, 1, 4])
            indices = [self.constant(f"index{i}", np.array(i)) for i in range(3)]
            return [self.op("Gather", turned, i, axis=0) for i in indices]
        if self.form.gemm:
            sides = [self.shaped(side, -1, TOKENS, count * WIDTH) for side in sides]
        if count == 3:
            how = {"axis": -1, "num_outputs": 3}
            sides = list(self.tape.op_multi_out("Split", sides, how, num_outputs=3))
        return sides if self.form.flat else [self.turned(side) for side in sides]

    def turned(self, x: ir.Value) -> ir.Value:
        return self.op("Transpose", self.shaped(x, -1, TOKENS, HEADS, HEAD), perm=[0, 2, 1, 3])

    def rotated(self, x: ir.Value) -> ir.Value:
        if self.form.opset >= 23:
            tables = [self.drawn(name, TOKENS, HEAD // 2) for name in ("cos", "sin")]
            rows = np.tile(np.arange(TOKENS), (self.batch, 1))
            heads = {"num_heads": HEADS} if self.form.flat else {}
            return self.op("RotaryEmbedding", x, *tables, self.constant("rows", rows), **heads)
        how = {"axis": -1, "num_outputs": 2}
        first, second = self.tape.op_multi_out("Split", [x], how, num_outputs=2)
        swapped = self.op("Concat", second, first, axis=-1)
        straight, turned = (self.drawn(name, TOKENS, HEAD) for name in ("straight", "turned"))
        return self.op("Add", self.op("Mul", x, straight), self.op("Mul", swapped, turned))

    def attention(self, x: ir.Value) -> ir.Value:
        queries, keys, values = self.parts(x)
        queries, keys = self.rotated(queries), self.rotated(keys)
        if self.form.opset >= 23:
            heads = {"q_num_heads": HEADS, "kv_num_heads": HEADS} if self.form.flat else {}
            y = self.op("Attention", queries, keys, values, **heads)
        else:
            scores = self.op("MatMul", queries, self.op("Transpose", keys, perm=[0, 1, 3, 2]))
            y = self.op("MatMul", self.op("Softmax", scores, axis=-1), values)
        y = y if self.form.flat else self.op("Transpose", y, perm=[0, 2, 1, 3])
        if self.form.gemm:
            return self.shaped(y, -1, WIDTH)
        return y if self.form.flat else self.shaped(y, -1, TOKENS, WIDTH)

    def gelu(self, x: ir.Value) -> ir.Value:
        if self.form.opset >= 20:
            return self.op("Gelu", x)
        root = self.number(2**0.5 if self.form.divided else 0.5**0.5)
        gate = self.op("Erf", self.op("Div" if self.form.divided else "Mul", x, root))
        half = self.op("Mul", x, self.number(0.5))
        return self.op("Mul", half, self.op("Add", gate, self.number(1)))

    def model(self) -> bytes:
        """A file with the block in it."""
        shape = ir.Shape([self.batch, TOKENS, WIDTH])
        x = ir.val("x", ir.DataType.FLOAT, ir.Shape(["B", TOKENS, WIDTH]))
        h = self.shaped(x, -1, WIDTH) if self.form.gemm else x
        y = self.attention(self.norm(h, "norm1"))
        h = self.op("Add", h, self.linear(y, "proj", WIDTH, WIDTH))
        y = self.linear(self.norm(h, "norm2"), "fc1", WIDTH, 4 * WIDTH, self.form.row)
        h = self.op("Add", h, self.linear(self.gelu(y), "fc2", 4 * WIDTH, WIDTH))
        h = self.norm(h, "norm3") if self.form.last else h
        h = self.shaped(h, -1, TOKENS, WIDTH) if self.form.gemm else h
        h.name, h.dtype, h.shape = "y", ir.DataType.FLOAT, shape
        made = self.tape.nodes, self.tape.initializers
        graph = ir.Graph(
            [x], [h], nodes=made[0], initializers=made[1], opset_imports={"": self.form.opset}
        )
        return ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    x = np.random.default_rng(1).standard_normal((asked.batch, TOKENS, WIDTH), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        live = {
            name: session(Block(form, asked.batch).model(), asked.threads, Path(folder) / str(i))
            for i, (name, form) in enumerate(FORMS.items())
        }
        interleave({name: run_once(each, {"x": x}) for name, each in live.items()}, asked.rounds)
        found = {name: kernels(Path(each.end_profiling())) for name, each in live.items()}
    first = sum(found["as written"].values())
    for name, each in found.items():
        parts = sorted(each.items(), key=lambda item: -item[1])[:6]
        shown = ", ".join(f"{operator} {time:.2f}" for operator, time in parts)
        total = sum(each.values())
        noted = ", ".join(f"{ratio:.3f}" for ratio in NOTED[name])
        print(f"{total / first:6.3f} ({noted})  {total:7.2f} ms  {name:22} {shown}")


if __name__ == "__main__":
    main()
