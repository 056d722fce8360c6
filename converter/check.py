"""ONNX Runtime against JAX: the same inputs through both, errors per output."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import onnx_ir as ir

from converter.errors import CheckError
from converter.save import LARGEST_FILE, save

if TYPE_CHECKING:
    import onnxruntime as ort


@dataclass(frozen=True)
class Errors:
    """How far one output is from the reference.

    ``max_abs`` is the largest absolute difference, ``max_rel`` that divided by the reference's
    largest magnitude, ``cosine`` the cosine similarity of the flattened arrays. A NaN or infinity
    that only one side has makes ``max_abs`` infinite.
    """

    max_abs: float
    max_rel: float
    cosine: float


def check(model: Any, fn: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, Errors]:
    """Run ``model`` (an export, an onnx_ir model or a path) in ONNX Runtime, ``fn`` in JAX."""
    arrays = [np.asarray(x) for x in inputs]
    got = run(model, arrays)
    wanted = [np.asarray(x) for x in jax.tree_util.tree_leaves(fn(*inputs))]
    if len(got) != len(wanted):
        raise CheckError(f"the model has {len(got)} outputs, the function gave {len(wanted)}")
    return {name: compare(g, w) for (name, g), w in zip(got.items(), wanted, strict=True)}


def run(model: Any, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The model's outputs by name, from ONNX Runtime on the CPU."""
    live = session(model)
    names = [i.name for i in live.get_inputs()]
    if len(names) != len(inputs):
        raise CheckError(f"the model takes {len(names)} inputs, received {len(inputs)}")
    feeds: Mapping[str, Any] = {n: _fed(a) for n, a in zip(names, inputs, strict=True)}
    outputs = live.run_with_ort_values(None, feeds)
    return {o.name: _fetched(v) for o, v in zip(live.get_outputs(), outputs, strict=True)}


def _fed(array: np.ndarray) -> Any:
    import onnxruntime as ort

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == jax.numpy.bfloat16:  # not one of numpy's own, so told by its ONNX number
        kind = ir.DataType.BFLOAT16.value
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), kind)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _fetched(value: Any) -> np.ndarray:
    if value.data_type() == "tensor(bfloat16)":
        return np.asarray(jax.numpy.from_dlpack(value))
    return value.numpy()


def session(
    model: Any,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    settings: Mapping[str, str] | None = None,
) -> ort.InferenceSession:
    """An ONNX Runtime session, on the CPU unless told otherwise; ``model`` itself if it is one.

    ``settings`` are entries of ONNX Runtime's session configuration.
    """
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        return model
    options = ort.SessionOptions()
    options.log_severity_level = 3
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    # Else it may print, and try again with other providers than those that were asked for.
    how: dict[str, Any] = {"providers": list(providers), "enable_fallback": 0}
    if isinstance(model, (str, os.PathLike)):
        return ort.InferenceSession(os.fspath(model), options, **how)
    inner: ir.Model = model if isinstance(model, ir.Model) else model.model
    if _weight_bytes(inner) <= LARGEST_FILE:
        data = ir.to_proto(inner).SerializeToString()
        return ort.InferenceSession(data, options, disabled_optimizers=_crashing(inner), **how)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        save(inner, path)
        return ort.InferenceSession(path, options, **how)


def _crashing(model: ir.Model) -> list[str]:
    """ONNX Runtime 1.31.1 can fall over its own fusion of float16 Transpose and MatMul."""
    values = (*model.graph.inputs, *model.graph.initializers.values())
    return ["MatmulTransposeFusion"] if ir.DataType.FLOAT16 in {v.dtype for v in values} else []


def _weight_bytes(model: ir.Model) -> int:
    tensors = (v.const_value for v in model.graph.initializers.values())
    return sum(t.nbytes for t in tensors if t is not None)


def compare(got: np.ndarray, wanted: np.ndarray) -> Errors:
    """Errors of ``got`` against ``wanted``."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise CheckError(
            f"an output is {got.dtype}{list(got.shape)} in ONNX Runtime and "
            f"{wanted.dtype}{list(wanted.shape)} in JAX"
        )
    a, b = (np.atleast_1d(x).astype(np.float64).ravel() for x in (got, wanted))
    finite = np.isfinite(b)
    same = np.array_equal(a[~finite], b[~finite], equal_nan=True) and np.isfinite(a[finite]).all()
    if not same:
        return Errors(float("inf"), float("inf"), float("nan"))
    a, b = a[finite], b[finite]
    if not a.size:
        return Errors(0.0, 0.0, 1.0)
    worst, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
    return Errors(worst, worst / scale if scale else worst, _cosine(a, b))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else float(np.array_equal(a, b))
