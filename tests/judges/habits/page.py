"""The page that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tests.judges.habits import Arrays, Habit, Runtime, evaluator, kernels, onnxruntime, openvino

TABLES: Mapping[Runtime, Mapping[str, Sequence[Habit]]] = {
    "onnxruntime": onnxruntime.HABITS,
    "openvino": openvino.HABITS,
    "onnx.reference": evaluator.HABITS,
}
VERSIONS: Mapping[Runtime, str] = {
    "onnxruntime": onnxruntime.VERSION,
    "openvino": openvino.VERSION,
    "onnx.reference": evaluator.VERSION,
}
TITLES: Mapping[Runtime, str] = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "onnx.reference": "The standard's evaluator, onnx.reference",
}

INTRODUCTION = """# Runtimes

Written by `python -m tests.judges.habits`; do not edit.

What runtimes get wrong, or cannot run, of files that are right by the standard: each with a
minimal file in ONNX's text form (`onnx.parser.parse_model`), what JAX gives for it, what the
runtime gives, and what our converter does about it. `tests/judges/test_habits.py` runs every file,
so that what a newer version has mended leaves this page. All of it was seen on CPUs.
"""


def page() -> str:
    """`docs/runtimes.md`."""
    sections = (line for runtime in TABLES for line in _section(runtime))
    return "\n".join([INTRODUCTION, *sections, *_kernels()])


def _section(runtime: Runtime) -> Iterator[str]:
    yield f"## {TITLES[runtime]} {VERSIONS[runtime]}\n"
    for title, habits in TABLES[runtime].items():
        yield f"### {title}\n"
        for habit in habits:
            yield from _entry(habit)


def _kernels() -> Iterator[str]:
    version, opset = VERSIONS["onnxruntime"], kernels.OPSET
    yield f"## Types without a kernel in ONNX Runtime {version} at opset {opset}\n"
    yield "Of the types that the operators have by the standard. What it lacks in float16, it"
    yield "converts by itself.\n"
    yield "| types | operators |"
    yield "|---|---|"
    for types, operators in kernels.MISSING.items():
        yield f"| {types or 'none'} | {operators} |"
    yield ""


def _entry(habit: Habit) -> Iterator[str]:
    seen = habit.seen if isinstance(habit.seen, str) else _arrays(habit.seen)
    yield f"**{habit.name}.** By the standard: {habit.standard}. The converter: {habit.ours}.\n"
    yield f"```\n{habit.text}\n```\n"
    yield "| inputs | right | seen |"
    yield "|---|---|---|"
    yield f"| {_arrays(habit.inputs)} | {_arrays(habit.right)} | {seen} |\n"


def _arrays(arrays: Arrays) -> str:
    return ", ".join(f"`{np.asarray(x).tolist()}`" if x.size else _empty(x) for x in arrays)


def _empty(array: np.ndarray) -> str:
    return f"nothing of shape `{list(array.shape)}`"
