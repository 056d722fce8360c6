"""Keras' application networks through the converter: size, layout, error and latency.

    pip install keras
    python benchmarks/keras_networks.py [NAME ...] [--size 96] [--jax2onnx PYTHON]

`error` is the largest difference from JAX over the largest value, with ONNX Runtime's optimiser
on and off. PYTHON is the interpreter of an environment with `keras` and `jax2onnx`, which then
converts the same networks. Both files run in the same rounds, and `over jax2onnx` is the fastest
run of ours over the fastest of theirs: below 1, ours is faster. `--json FILE` keeps all numbers.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from keras_seeded import NAMES, network

import converter
from zoo.bench.rounds import interleave, resting_session, run_once
from zoo.errors import first_line
from zoo.runtime import ERRORS

PATIENCE = 300
"""Seconds that a conversion of the peer may take."""


@dataclass(frozen=True)
class Made:
    """What a converter made of a network; `problem` says why there is no file that runs."""

    seconds: float
    nodes: int = 0
    transposes: int = 0
    norms: int = 0
    error: float = float("nan")
    milliseconds: float = float("nan")
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.seconds:8.1f}  {self.problem}"
        counts = f"{self.nodes:8}{self.transposes:12}{self.norms:12}"
        return f"{self.seconds:8.1f}{counts}{self.error:10.1e}{self.milliseconds:10.2f}"


def ours(model: Any, size: int, file: Path) -> None:
    """Our file of a network."""
    variables = (model.trainable_variables, model.non_trainable_variables)
    params = [[v.value for v in kind] for kind in variables]

    def fn(params: list[list[jax.Array]], x: jax.Array) -> jax.Array:
        return model.stateless_call(*params, x, training=False)[0]

    converter.to_onnx(fn, [("B", size, size, 3)], params=params, path=file)


def theirs(python: str, name: str, size: int, file: Path) -> str:
    """The peer's file, and what kept it from making one."""
    script = Path(__file__).with_name("keras_jax2onnx.py")
    command = [python, str(script), name, str(size), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"not converted in {PATIENCE} s"
    said = done.stderr.strip().splitlines() or ["no file, and no message"]
    return "" if done.returncode == 0 else f"not converted: {said[-1]}"


def judged(file: Path, seconds: float, x: np.ndarray, wanted: np.ndarray) -> Made:
    """A file's nodes and its error, or why it does not run."""
    counts = Counter(n.op_type for n in onnx.load(file, load_external_data=False).graph.node)
    errors = []
    try:
        for level in ("all", "disabled"):
            live = converter.session(file, level=level)
            (got,) = live.run(None, {live.get_inputs()[0].name: x})
            errors.append(float(abs(got - wanted).max() / abs(wanted).max()))
    except ERRORS as error:
        return Made(seconds, problem=f"does not run: {first_line(error)}")
    norms = counts["BatchNormalization"]
    return Made(seconds, counts.total(), counts["Transpose"], norms, max(errors))


def measure(name: str, asked: argparse.Namespace, folder: Path) -> dict[str, Made]:
    """What both converters make of one network."""
    model = network(name, asked.size)
    x = np.random.default_rng(1).standard_normal((1, asked.size, asked.size, 3), np.float32)
    wanted = np.asarray(model(x, training=False))
    makers = {"ours": lambda file: ours(model, asked.size, file)}
    if asked.jax2onnx:
        makers["jax2onnx"] = lambda file: theirs(asked.jax2onnx, name, asked.size, file)
    found: dict[str, Made] = {}
    tasks = {}
    for maker, make in makers.items():
        file = folder / f"{name}-{maker}.onnx"
        began = time.perf_counter()
        problem = make(file)
        seconds = time.perf_counter() - began
        made = Made(seconds, problem=problem) if problem else judged(file, seconds, x, wanted)
        found[maker] = made
        if not made.problem:
            live = resting_session(file, asked.threads)
            tasks[maker] = run_once(live, {live.get_inputs()[0].name: x})
    times = interleave(tasks, asked.rounds)
    return {
        maker: Made(**{**asdict(made), "milliseconds": 1e3 * min(times[maker])})
        if maker in times
        else made
        for maker, made in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--jax2onnx", metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    widths = {"seconds": 8, "nodes": 8, "transposes": 12, "batchnorms": 12, "error": 10, "ms": 10}
    print(" " * 28 + "".join(f"{name:>{width}}" for name, width in widths.items()))
    table: dict[str, dict[str, Made]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names:
            table[name] = found = measure(name, asked, Path(folder))
            for maker, made in found.items():
                print(f"{name:18}{maker:10}{made}", flush=True)
            if len(found) == 2 and not any(made.problem for made in found.values()):
                ratio = found["ours"].milliseconds / found["jax2onnx"].milliseconds
                print(f"{'':18}over jax2onnx: {ratio:.2f}", flush=True)
    if asked.json:
        rows = {n: {m: asdict(made) for m, made in found.items()} for n, found in table.items()}
        asked.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
