"""Running a model in ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import onnx_ir as ir

from converter.errors import CheckError
from converter.ir.complex_pairs import packed
from converter.model.results import Export

if TYPE_CHECKING:
    import onnxruntime as ort

Model: TypeAlias = "Export | ir.Model | str | os.PathLike[str] | ort.InferenceSession"
"""What can be run: an export, an onnx_ir model, a path, or a session, which is run as it is."""


def run(model: Model, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The model's outputs by name, from ONNX Runtime on the CPU.

    Complex numbers are given as they are, and come with the real and the imaginary parts on a last
    axis of two, as the model has them.
    """
    live = session(model)
    names = [i.name for i in live.get_inputs()]
    if len(names) != len(inputs):
        raise CheckError(f"the model takes {len(names)} inputs, received {len(inputs)}")
    feeds: Mapping[str, Any] = {n: _fed(packed(a)) for n, a in zip(names, inputs, strict=True)}
    outputs = live.run_with_ort_values(None, feeds)
    return {o.name: _fetched(v) for o, v in zip(live.get_outputs(), outputs, strict=True)}


def _fed(array: np.ndarray) -> Any:
    from converter.verify.in_memory_session import ort_value_of

    is_bfloat16 = array.dtype == jax.numpy.bfloat16
    return ort_value_of(array, ir.DataType.BFLOAT16 if is_bfloat16 else ir.DataType.UNDEFINED)


def _fetched(value: Any) -> np.ndarray:
    if value.data_type() == "tensor(bfloat16)":
        return np.asarray(jax.numpy.from_dlpack(value))
    return value.numpy()


def session(
    model: Model,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    settings: Mapping[str, str] | None = None,
    *,
    optimise: bool = True,
) -> ort.InferenceSession:
    """An ONNX Runtime session, on the CPU unless told otherwise; ``model`` itself if it is one.

    ``settings`` are entries of ONNX Runtime's session configuration; without ``optimise`` the graph
    is run as it is written. On the CPU, tensors in a file of their own (``<name>_data``, above
    2 GB) stay there: they are mapped and not copied, which takes little memory and some more time.
    """
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        return model
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    # Else it may print, and try again with other providers than those that were asked for.
    how: dict[str, Any] = {"providers": list(providers), "enable_fallback": 0}
    on_cpu = list(providers) == ["CPUExecutionProvider"]
    if isinstance(model, (str, os.PathLike)):
        if not (on_cpu and Path(f"{os.fspath(model)}_data").exists()):
            return ort.InferenceSession(os.fspath(model), options, **how)
        model = ir.load(model)
    inner = model.model if isinstance(model, Export) else model
    if not isinstance(inner, ir.Model):
        raise CheckError(
            "model must be an export, an onnx_ir model, a path or a session, received "
            f"{type(inner).__name__}"
        )
    if on_cpu and any(isinstance(t, ir.ExternalTensor) for t in _tensors(inner)):
        from converter.verify.memory_mapped_session import mapped

        return mapped(inner, options, **how)
    from converter.verify.in_memory_session import lent

    return lent(inner, options, **how)


def _tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    values = model.graph.initializers.values()
    return [value.const_value for value in values if value.const_value is not None]
