"""Recurrent layers as one operator and as a loop of the cell's operators: size, time, error.

    pip install flax keras
    python benchmarks/recurrent.py [--steps 128] [--width 64] [--batches 1 16] [--rounds 30]

An LSTM in the spellings of Flax, Keras and Equinox, and a GRU in Flax', converted with the
recogniser of recurrent cells and without it. All files run once in every round; the fastest run of
each counts. A busy machine slows all alike, so that ratios stay near those of a quiet one.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import keras
import numpy as np
import onnx_ir as ir
import onnxruntime

import converter
from converter import passes
from converter.export import finish
from converter.settings import Settings
from converter.simplify import simplify
from converter.trace import trace

OPSET = 22
Layer = tuple[Callable[..., Any], Any]


def flax(cell: nn.RNNCellBase, x: np.ndarray) -> Layer:
    module = nn.RNN(cell)
    return module.apply, module.init(jax.random.key(0), x)


def with_keras(x: np.ndarray) -> Layer:
    given = keras.Input(x.shape[1:])
    model = keras.Model(given, keras.layers.LSTM(x.shape[2], return_sequences=True)(given))
    params = [
        [w.value for w in v] for v in (model.trainable_variables, model.non_trainable_variables)
    ]
    return lambda p, x: model.stateless_call(*p, x)[0], params


def equinox(x: np.ndarray) -> Layer:
    width = x.shape[2]

    def one(cell: eqx.nn.LSTMCell, rows: jax.Array) -> jax.Array:
        def step(state: Any, row: jax.Array) -> Any:
            state = cell(row, state)
            return state, state[0]

        return jax.lax.scan(step, (jnp.zeros(width), jnp.zeros(width)), rows)[1]

    cell = eqx.nn.LSTMCell(width, width, key=jax.random.key(0))
    return jax.vmap(one, in_axes=(None, 0)), cell


def layers(x: np.ndarray) -> dict[str, Layer]:
    width = x.shape[2]
    return {
        "Flax LSTM": flax(nn.OptimizedLSTMCell(width), x),
        "Keras LSTM": with_keras(x),
        "Equinox LSTM": equinox(x),
        "Flax GRU": flax(nn.GRUCell(width), x),
    }


def as_loop(layer: Layer, x: np.ndarray) -> converter.Export:
    """The conversion without the pass that recognises recurrent cells."""
    fn, params = layer
    retrace = partial(trace, fn, [x], params)
    graph, settings = retrace(), Settings(OPSET)
    for step in passes.PASSES:
        if step.name != "recur" and step.since <= OPSET and step.run(graph, settings):
            simplify(graph)
    return finish(graph, settings, retrace)


def session(export: converter.Export, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    file = ir.to_proto(export.model).SerializeToString()
    return onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(
        f"{'':22}{'operators':>10}{'as loop':>10}{'ms':>10}{'as loop':>10}{'ratio':>8}{'error':>10}"
    )
    for batch in options.batches:
        shape = (batch, options.steps, options.width)
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        compare(layers(x), x, options)


def compare(table: dict[str, Layer], x: np.ndarray, options: argparse.Namespace) -> None:
    """A row for each layer."""
    pairs = {
        name: (converter.to_onnx(fn, [x], params=params, opset=OPSET), as_loop((fn, params), x))
        for name, (fn, params) in table.items()
    }
    sessions = {n: [session(e, options.threads) for e in both] for n, both in pairs.items()}
    fastest = {name: [np.inf, np.inf] for name in table}
    for _ in range(options.rounds):
        for name, both in sessions.items():
            for i, one in enumerate(both):
                began = time.perf_counter()
                one.run(None, {one.get_inputs()[0].name: x})
                fastest[name][i] = min(fastest[name][i], time.perf_counter() - began)
    for name, (fn, params) in table.items():
        counts = [export.report.nodes for export in pairs[name]]
        times = [1e3 * t for t in fastest[name]]
        (got,) = sessions[name][0].run(None, {sessions[name][0].get_inputs()[0].name: x})
        error = abs(got - np.asarray(fn(params, x))).max()
        row = "".join(f"{n:10}" for n in counts) + "".join(f"{t:10.2f}" for t in times)
        print(
            f"{name + f', batch {len(x)}':22}{row}{times[1] / times[0]:8.1f}{error:10.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
