"""Run a model in ONNX Runtime, which is imported on first use."""

from __future__ import annotations

import ctypes
import math
import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
import onnx_ir as ir
from onnx_ir.serde import SerdeError

from converter.errors import CheckError
from converter.ir.complex_pairs import pack_complex
from converter.model.results import Export
from converter.model.streaming import MAX_INLINE_BYTES, to_proto_with_external
from converter.model.verdict import LEVELS, Level
from converter.opsets import warning_if_too_old

if TYPE_CHECKING:
    import onnxruntime as ort

Model: TypeAlias = "Export | ir.Model | str | os.PathLike[str] | ort.InferenceSession"
"""A model that can be run: an export, an onnx_ir model, a path, or a session, which is run as it
is."""

SHAREABLE_TYPES = frozenset(
    ir.DataType[name]
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL"),
        *(f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)),
    )
)
"""Types whose tensors ONNX Runtime takes from numpy without a conversion; other tensors stay in the
model."""

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
"""Session option with the folder of the external tensors of a model that is passed as bytes."""

OPTIMIZATION_LEVELS: Mapping[Level, str] = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
"""Optimization levels by the names of ONNX Runtime's constants."""

PREPACKING = "session.disable_prepacking"
"""Session option that is "1" if weights are not copied into another layout."""

NO_SPINNING: Mapping[str, str] = {"session.intra_op.allow_spinning": "0"}
"""Settings of a session that compares numbers. Its idle threads sleep. Spinning threads would take
several times the processor time of a small model, and slow down JAX and other processes."""

NEWEST_OPSET = re.compile(r"domain ai\.onnx is till opset (\d+)")
"""Pattern of ONNX Runtime's message about the newest opset that it loads."""


def run(model: Model, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a model by name, from ONNX Runtime on the CPU.

    Arguments:
        model: an export, an onnx_ir model, a path, or a session.
        inputs: one array for each input of the model, in order. A complex array may be passed as it
            is; its real and imaginary parts are moved to a last axis of size two.

    Returns:
        The outputs. Complex ones have their real and imaginary parts on a last axis of size two, as
        in the model.

    Raises:
        CheckError: the number of inputs is wrong, or no session can be created (``session``).
            Errors of ONNX Runtime during the run are not converted.
    """
    ort_session = session(model, settings=NO_SPINNING)
    names = [i.name for i in ort_session.get_inputs()]
    if len(names) != len(inputs):
        raise CheckError(f"the model takes {len(names)} inputs, received {len(inputs)}")
    feeds: Mapping[str, Any] = {
        n: _to_ort_value(pack_complex(a)) for n, a in zip(names, inputs, strict=True)
    }
    outputs = ort_session.run_with_ort_values(None, feeds, _silent_run_options())
    return {o.name: _to_numpy(v) for o, v in zip(ort_session.get_outputs(), outputs, strict=True)}


def run_sample(
    ort_session: ort.InferenceSession, inputs: Sequence[np.ndarray], sample: str
) -> dict[str, np.ndarray]:
    """Return the outputs of a session by name, for the inputs of a sample.

    Arguments:
        ort_session: the session of ONNX Runtime.
        inputs: one array for each input of the model, in order.
        sample: name of the sample, used in the message of an error.

    Raises:
        CheckError: the number of inputs is wrong, or ONNX Runtime cannot run the model on these
            inputs.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        return run(ort_session, inputs)
    except (
        state.Fail,
        state.InvalidArgument,
        state.NotImplemented,
        state.RuntimeException,
    ) as error:
        shapes = ", ".join(str(list(x.shape)) for x in inputs)
        message = str(error).partition("Status Message: ")[2] or str(error)
        raise CheckError(
            f"ONNX Runtime cannot run the model on {sample} inputs of {shapes}: "
            f"{message.splitlines()[0]}. If your function is not meant for such inputs, pass inputs"
        ) from error


def _silent_run_options() -> ort.RunOptions:
    """Return options with which ONNX Runtime raises the errors of a run without printing them."""
    import onnxruntime as ort

    options = ort.RunOptions()
    options.log_severity_level = 4
    return options


def iter_sessions(model: Model) -> Iterator[tuple[Level, ort.InferenceSession]]:
    """Yield pairs of an optimization level and a session of the model at that level.

    The sessions are created one after the other, so that only one of them has the weights in memory
    at a time. If ``model`` is a session, it is yielded alone, as level "all".
    """
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        yield "all", model
        return
    for level in select_levels(model):
        yield level, session(model, settings=NO_SPINNING, level=level)


def select_levels(model: Model) -> tuple[Level, ...]:
    """Return the optimization levels at which a model is run.

    These are all levels, or only "disabled" if the tensors of the model are in a separate file,
    which is memory-mapped.
    """
    return LEVELS[:1] if _is_mapped(model) else LEVELS


def _is_mapped(model: Model) -> bool:
    """Return True if the tensors of a model are in a separate file.

    For a path, that is a file ``<path>_data`` next to it. For a model in memory, it is any external
    tensor. Return False for a session.
    """
    if isinstance(model, (str, os.PathLike)):
        return Path(f"{os.fspath(model)}_data").exists()
    inner = model.model if isinstance(model, Export) else model
    return isinstance(inner, ir.Model) and any(_external_tensors(inner))


def _to_ort_value(array: np.ndarray) -> Any:
    """Return an array of any supported dtype as a value of ONNX Runtime."""
    is_bfloat16 = array.dtype == jax.numpy.bfloat16
    return _ort_value(array, ir.DataType.BFLOAT16 if is_bfloat16 else ir.DataType.UNDEFINED)


def _ort_value(array: np.ndarray, dtype: ir.DataType) -> ort.OrtValue:
    """Return an array as a value of ONNX Runtime.

    ``dtype`` must be BFLOAT16 for bfloat16, which ONNX Runtime does not take from numpy. For other
    arrays it is not used.
    """
    import onnxruntime as ort

    array = np.ascontiguousarray(array).reshape(array.shape)
    if dtype == ir.DataType.BFLOAT16:
        # numpy does not have the type bfloat16.
        numbers = array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(numbers, dtype.value)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _to_numpy(value: Any) -> np.ndarray:
    """Return a value of ONNX Runtime as a numpy array, also for bfloat16."""
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    shape = value.shape()
    buffer = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(buffer, np.uint16).view(jax.numpy.bfloat16).reshape(shape)


def session(
    model: Model,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    settings: Mapping[str, str] | None = None,
    *,
    level: Level = "all",
) -> ort.InferenceSession:
    """Return an ONNX Runtime session for a model; a session is returned unchanged.

    On the CPU, tensors in a separate file (``<name>_data``, above 2 GB) are memory-mapped and not
    copied. This takes little memory and somewhat more time, and nothing is optimized. In a
    model that is passed in memory, small external tensors are then replaced by tensors in memory.

    Arguments:
        model: an export, an onnx_ir model, a path or a session.
        providers: execution providers of ONNX Runtime.
        settings: entries of ONNX Runtime's session configuration.
        level: optimization level; "disabled" runs the graph as it is written. It is not used if
            tensors are memory-mapped.

    Raises:
        CheckError: the installed ONNX Runtime is too old for the converter or for the opset of the
            model, the path is a folder, or the model is not one of these. Other errors of ONNX
            Runtime are not converted.
    """
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        return model
    if version_problem := warning_if_too_old(ort.__version__):
        raise CheckError(version_problem)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(
        ort.GraphOptimizationLevel, OPTIMIZATION_LEVELS[level]
    )
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    # If the fallback is enabled, ONNX Runtime may print messages and try providers that were not
    # requested.
    session_options: dict[str, Any] = {"providers": list(providers), "enable_fallback": 0}
    on_cpu = list(providers) == ["CPUExecutionProvider"]
    if isinstance(model, (str, os.PathLike)):
        if Path(model).exists() and not Path(model).is_file():
            raise CheckError(f"{os.fspath(model)} is not a file; pass the path of a model")
        if not (on_cpu and Path(f"{os.fspath(model)}_data").exists()):
            return _start_session(os.fspath(model), options, session_options)
        model = ir.load(model)
    inner = model.model if isinstance(model, Export) else model
    if not isinstance(inner, ir.Model):
        raise CheckError(
            "model must be an export, an onnx_ir model, a path or a session, received "
            f"{type(inner).__name__}"
        )
    content, shared_values = (
        _map_tensor_files if on_cpu and any(_external_tensors(inner)) else _share_tensors_in_memory
    )(inner, options)
    ort_session = _start_session(content, options, session_options)
    # A session stores only the memory addresses of the values, so the values have to exist as long
    # as the session.
    weakref.finalize(ort_session, shared_values.clear).atexit = False
    return ort_session


def _start_session(
    model: str | bytes, options: ort.SessionOptions, session_options: Mapping[str, Any]
) -> ort.InferenceSession:
    """Return an ONNX Runtime session for a path or the bytes of a model.

    Raises:
        CheckError: the opset of the file is newer than ONNX Runtime loads. Other errors of ONNX
            Runtime are not converted.
    """
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    try:
        return ort.InferenceSession(model, options, **session_options)
    except Fail as error:
        if newest := NEWEST_OPSET.search(str(error)):
            raise CheckError(
                f"ONNX Runtime {ort.__version__} loads files of opsets up to {newest[1]}: write "
                "this one at such an opset, or install a newer version"
            ) from error
        raise


# -------------------------------------------------------------------------- tensors in memory


def _share_tensors_in_memory(
    model: ir.Model, options: ort.SessionOptions
) -> tuple[bytes, dict[str, ort.OrtValue]]:
    """Return the bytes of a model without its large tensors, and these tensors by name.

    The session reads them from the arrays in memory, so that no tensor is serialized, parsed or
    copied and the model may have any size. They are added to ``options`` as external initializers.
    The caller has to keep them as long as the session. The model is not changed.

    An error of a weight program is raised itself, not the error that wraps it.
    """
    constants = ((name, value.const_value) for name, value in model.graph.initializers.items())
    tensors = ((name, tensor) for name, tensor in constants if tensor is not None)
    external = {
        name: t for name, t in tensors if t.nbytes > MAX_INLINE_BYTES and t.dtype in SHAREABLE_TYPES
    }
    shared_values = {
        name: _ort_value(tensor.numpy(), tensor.dtype) for name, tensor in external.items()
    }
    options.add_external_initializers(list(shared_values), list(shared_values.values()))
    try:
        proto = to_proto_with_external(model, [*external.values()], "lent")
        return proto.SerializeToString(), shared_values
    except SerdeError as error:
        cause: BaseException = error
        while isinstance(cause, SerdeError) and cause.__cause__ is not None:
            cause = cause.__cause__
        raise cause from error


# ---------------------------------------------------------------------------- tensors in files


def _map_tensor_files(
    model: ir.Model, options: ort.SessionOptions
) -> tuple[bytes, dict[str, ort.OrtValue]]:
    """Return the bytes of a model without its external tensors, and these tensors as memory-mapped
    values by name.

    The values are also added to ``options``. The caller has to keep them as long as the session.
    Small external tensors of the model are replaced by tensors in memory, in place.

    The settings in ``options`` are changed so that no tensor is copied. Weights are not packed and
    the graph is run as it is written, because optimizations of tensors make copies. The system can
    drop the mapped pages when memory is short. ONNX Runtime's own mapping of external data has
    writable pages, which count as memory of the process, and it packs copies of the matrices.
    """
    folders = {os.path.dirname(tensor.path) for _, tensor in _external_tensors(model)}
    options.add_session_config_entry(EXTERNAL_FOLDER, folders.pop() or ".")
    _embed_small_tensors(model)
    views = dict(_map_external_tensors(model))
    for name, value in views.items():
        options.add_initializer(name, value)
    options.add_session_config_entry(PREPACKING, "1")
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    import onnxruntime as ort

    # Nodes are run in the order of the file. In the default order, all casts of parameters would
    # run first.
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    # If the optimizer changed a tensor, the original tensor of the file would be used instead.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ir.to_proto(model).SerializeToString(), views


def _embed_small_tensors(model: ir.Model) -> None:
    """Move external tensors of at most ``MAX_INLINE_BYTES`` bytes into the model, in place.

    ONNX Runtime has to know shapes and axes when it loads the model.
    """
    for name, tensor in list(_external_tensors(model)):
        if tensor.nbytes <= MAX_INLINE_BYTES:
            embedded = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
            model.graph.initializers[name].const_value = embedded


def _external_tensors(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    """Yield the name and the tensor of each initializer that is stored in a separate file."""
    for name, value in model.graph.initializers.items():
        if isinstance(value.const_value, ir.ExternalTensor):
            yield name, value.const_value


def _map_external_tensors(model: ir.Model) -> Iterator[tuple[str, ort.OrtValue]]:
    """Yield the name of each external tensor and a value that reads from its file.

    Each file is memory-mapped once.
    """
    files: dict[Path, np.ndarray] = {}
    for name, tensor in _external_tensors(model):
        path = Path(tensor.path)
        if path not in files:
            files[path] = np.memmap(path, np.uint8, "r")
        start = tensor.offset or 0
        content = np.asarray(files[path])[start : start + tensor.nbytes]
        numbers = content.view(tensor.dtype.numpy()).reshape(tensor.shape.numpy())
        yield name, _ort_value(numbers, tensor.dtype)
