"""Tables of the faults of runtimes, with a minimal file for each fault.

There is a TOML file for each runtime, and `python -m tests.judges.habits` writes `docs/runtimes.md`
from them. A test runs every file, so that a fault that a newer version fixed is noticed. The fault
stays in the table, with its versions, as long as one of them is supported.
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
"""The value of `Habit.seen` if the file ends the process of the runtime."""


@dataclass
class Habit:
    """A minimal file for which a runtime gives another result than the standard and JAX.

    ``model`` is in ONNX's text form, without its header. ``right`` is the result of JAX for the
    same computation, and of ONNX's evaluator if the standard settles it. ``seen`` is the result of
    the runtime, a part of its error message, or ``DIES``. ``standard`` is what the text of the
    operator says, and ``ours`` what the converter does about the fault. ``settled`` is false where
    the text leaves the result open, so that no runtime is at fault. ``versions`` are those with the
    fault; an empty text means all. Inputs and results are converted to arrays of the dtypes that
    the model has.
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
        self.inputs = _to_arrays(self.inputs, graph.input)
        self.right = _to_arrays(self.right, graph.output)
        if not isinstance(self.seen, str):
            self.seen = _to_arrays(self.seen, graph.output)

    @property
    def text(self) -> str:
        """The model in the text form that `onnx.parser` reads."""
        header = f'<ir_version: {self.ir_version}, opset_import: ["" : {self.opset}]>'
        return f"{header}\n{self.model.strip()}"

    @cached_property
    def proto(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(self.text)


def _to_arrays(nested_lists: Sequence[Any], values: Sequence[onnx.ValueInfoProto]) -> Arrays:
    """Return nested lists as arrays with the dtypes of the model's values.

    An array without elements gets the shape of the value too.
    """
    arrays = []
    for nested, value in zip(nested_lists, values, strict=True):
        tensor_type = value.type.tensor_type
        array = np.array(nested, tensor_dtype_to_np_dtype(tensor_type.elem_type))
        is_short = not array.size and array.ndim < len(tensor_type.shape.dim)
        arrays.append(
            array.reshape([d.dim_value for d in tensor_type.shape.dim]) if is_short else array
        )
    return arrays


def _read(runtime: Runtime) -> dict[str, Any]:
    """Return the content of a runtime's TOML file, with its rows as `Habit` objects.

    Rows of quirks that the converter avoids get their model and versions from the target.
    """
    content = tomllib.loads((Path(__file__).parent / f"{runtime}.toml").read_text())
    quirks = {
        quirk.name: {"model": quirk.example, "versions": quirk.versions}
        for quirk in (TARGETS[runtime].quirks if runtime in TARGETS else ())
    }
    for tensor_type, rows in content["habits"].items():
        content["habits"][tensor_type] = [
            Habit(**quirks.get(row["name"], {}), **row) for row in rows
        ]
    return content


_FILES = {runtime: _read(runtime) for runtime in get_args(Runtime)}
TABLES: Mapping[Runtime, Mapping[str, Sequence[Habit]]] = {
    runtime: content["habits"] for runtime, content in _FILES.items()
}
"""By runtime and kind of fault: the faults."""
TITLES = {runtime: content["title"] for runtime, content in _FILES.items()}
VERSIONS = {runtime: content["versions"] for runtime, content in _FILES.items()}
"""By runtime: the versions in which the files were run, the newest last."""
