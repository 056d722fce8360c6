"""A session whose tensors stay in the file that they are in.

ONNX Runtime maps external data too, but as pages that it may write to, which count as memory that
the process owns, and then packs copies of the matrices.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from converter.model.streaming import INLINE
from converter.verify.in_memory_session import ort_value_of

FOLDER = "session.model_external_initializers_file_folder_path"
"""Where ONNX Runtime looks for the tensors of a model that it gets as bytes."""


PREPACKING = "session.disable_prepacking"


def mapped(model: ir.Model, options: ort.SessionOptions, **how: Any) -> ort.InferenceSession:
    """Run a model with external tensors on the CPU, with no more in memory than their pages.

    The system drops those again where memory is short. Nothing is packed, and the graph is run as
    it is written: what an optimiser does to tensors makes copies.
    """
    folders = {os.path.dirname(tensor.path) for _, tensor in _external(model)}
    options.add_session_config_entry(FOLDER, folders.pop() or ".")
    _hold_small(model)
    given = dict(_views(model))
    for name, value in given.items():
        options.add_initializer(name, value)
    options.add_session_config_entry(PREPACKING, "1")
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    # In the file's order: by default casts of parameters would come first, all together.
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    # An optimiser may rewrite a tensor, and would then get the one of the file in its place.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = ir.to_proto(model).SerializeToString()
    live = ort.InferenceSession(content, options, **how)
    # A session keeps only their addresses, so they are to live as long as it does.
    weakref.finalize(live, given.clear).atexit = False
    return live


def _hold_small(model: ir.Model) -> None:
    """Read the shapes and the like: what a graph means depends on them, so they are to be in it."""
    for name, tensor in list(_external(model)):
        if tensor.nbytes <= INLINE:
            held = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
            model.graph.initializers[name].const_value = held


def _external(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    for name, value in model.graph.initializers.items():
        if isinstance(value.const_value, ir.ExternalTensor):
            yield name, value.const_value


def _views(model: ir.Model) -> Iterator[tuple[str, ort.OrtValue]]:
    """Every external tensor as a view of its file, which is mapped once."""
    files: dict[Path, np.ndarray] = {}
    for name, tensor in _external(model):
        path = Path(tensor.path)
        if path not in files:
            files[path] = np.memmap(path, np.uint8, "r")
        start = tensor.offset or 0
        content = np.asarray(files[path])[start : start + tensor.nbytes]
        numbers = content.view(tensor.dtype.numpy()).reshape(tensor.shape.numpy())
        yield name, ort_value_of(numbers, tensor.dtype)
