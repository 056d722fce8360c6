"""What runtimes get wrong or cannot run: a minimal file each, `python -m tests.judges.habits`.

The tables, a TOML file for each runtime, are what `docs/runtimes.md` shows. A test runs every file,
so that a fault that a newer runtime has fixed is noticed. It stays, with the version that fixed it,
as long as a version before that one is supported.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import onnx.parser
from onnx.helper import tensor_dtype_to_np_dtype

from converter.targets import TARGETS

Runtime: TypeAlias = Literal["onnxruntime", "openvino", "tract", "opencv", "onnx.reference"]
Arrays: TypeAlias = Sequence[np.ndarray]

DIES = "the process ends"
"""What is seen where a file takes the whole process with it."""


@dataclass
class Habit:
    """A file that a runtime does something else with than the standard and JAX.

    ``model`` is in ONNX's text form, without its header. ``right`` is what JAX gives for the same
    thing, and the standard's evaluator if the text settles it; ``seen`` what the runtime gives, a
    part of what it says where it refuses, or that the process ends. ``standard`` tells what the
    operator's text says, ``ours`` what the converter does about it; ``settled`` is false where the
    text leaves the result open, so that no runtime is at fault. ``versions`` are those that do it,
    all if empty. Numbers get the dtypes that the model has for them.
    """

    name: str
    inputs: Any
    right: Any
    seen: Any
    standard: str
    ours: str
    model: str
    versions: str = ""
    settled: bool = True
    opset: int = 23
    ir_version: int = 10

    def __post_init__(self) -> None:
        graph = self.proto.graph
        self.inputs = _typed(self.inputs, graph.input)
        self.right = _typed(self.right, graph.output)
        if not isinstance(self.seen, str):
            self.seen = _typed(self.seen, graph.output)

    @property
    def text(self) -> str:
        """The model as `onnx.parser` reads it."""
        header = f'<ir_version: {self.ir_version}, opset_import: ["" : {self.opset}]>'
        return f"{header}\n{self.model.strip()}"

    @cached_property
    def proto(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(self.text)


def _typed(numbers: Sequence[Any], values: Sequence[onnx.ValueInfoProto]) -> Arrays:
    """Numbers as arrays; of none, the model alone knows the shape."""
    arrays = []
    for number, value in zip(numbers, values, strict=True):
        kind = value.type.tensor_type
        array = np.array(number, tensor_dtype_to_np_dtype(kind.elem_type))
        is_short = not array.size and array.ndim < len(kind.shape.dim)
        arrays.append(array.reshape([d.dim_value for d in kind.shape.dim]) if is_short else array)
    return arrays


def _read(runtime: Runtime) -> dict[str, Any]:
    """Its file; what the converter avoids has its model and its versions from the target."""
    content = tomllib.loads((Path(__file__).parent / f"{runtime}.toml").read_text())
    known = {
        quirk.name: {"model": quirk.example, "versions": quirk.versions}
        for quirk in (TARGETS[runtime].quirks if runtime in TARGETS else ())
    }
    for kind, rows in content["habits"].items():
        content["habits"][kind] = [Habit(**known.get(row["name"], {}), **row) for row in rows]
    return content


_FILES = {runtime: _read(runtime) for runtime in get_args(Runtime)}
TABLES: Mapping[Runtime, Mapping[str, Sequence[Habit]]] = {
    runtime: content["habits"] for runtime, content in _FILES.items()
}
"""By runtime and kind."""
TITLES = {runtime: content["title"] for runtime, content in _FILES.items()}
VERSIONS = {runtime: content["versions"] for runtime, content in _FILES.items()}
"""Those that were looked at, the newest last."""
