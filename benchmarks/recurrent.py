"""Recurrent layers as one operator and as a loop of the cell's operators: size, time, error.

    pip install flax keras
    python benchmarks/recurrent.py [--steps 128] [--width 64] [--batches 1 16] [--rounds 30]

An LSTM in the spellings of Flax, Keras and Equinox, and a GRU in Flax', converted with the
recogniser of recurrent cells and without it. All files run once in every round; the fastest run of
each counts. A busy machine slows all alike, so that ratios stay near those of a quiet one.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import keras
import numpy as np
import onnx_ir as ir

import converter
from converter.fuse.user_recognisers import names
from zoo.bench.rounds import interleave, resting_session, run_once

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


def converted(layer: Layer, x: np.ndarray, as_loop: bool) -> converter.Export:
    """With the recogniser of recurrent cells, or without it."""
    fn, params = layer
    fuse = [name for name in names() if name != "recurrent"] if as_loop else True
    return converter.to_onnx(fn, [x], params=params, opset=OPSET, fuse=fuse)


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
    exports = {
        (name, as_loop): converted(layer, x, as_loop)
        for name, layer in table.items()
        for as_loop in (False, True)
    }
    live = {
        key: resting_session(ir.to_proto(export.model).SerializeToString(), options.threads)
        for key, export in exports.items()
    }
    feeds = {key: {each.get_inputs()[0].name: x} for key, each in live.items()}
    times = interleave({k: run_once(each, feeds[k]) for k, each in live.items()}, options.rounds)
    for name, (fn, params) in table.items():
        both = [(name, False), (name, True)]
        fused, loop = (1e3 * min(times[key]) for key in both)
        (got,) = live[both[0]].run(None, feeds[both[0]])
        error = abs(got - np.asarray(fn(params, x))).max()
        counts = "".join(f"{exports[key].report.nodes:10}" for key in both)
        label = f"{name}, batch {len(x)}"
        print(f"{label:22}{counts}{fused:10.2f}{loop:10.2f}{loop / fused:8.1f}{error:10.1e}")


if __name__ == "__main__":
    main()
