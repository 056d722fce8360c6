"""8-bit files: ONNX Runtime's own dynamic quantiser, after outlier channels were evened out."""

import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
from google.protobuf.message import DecodeError

import converter
from zoo.files.staging import sidecar_path

SPREAD = 3.0
"""Standard deviations of a normalised channel that are taken for its largest value."""

COPIES = 1.4
"""How many times the size of a model has to be free: a copy of it, and the result."""


def quantise(source: Path, target: Path) -> None:
    """Write `source` with 8-bit weights, a scale for each output channel of a matrix.

    Activations are quantised as they come, a tensor at a time. Weights take 7 of the 8 bits:
    processors without VNNI add two products of 8 bits in 16, which overflow with all 8.

    **Raises** `OSError` if there is no room: the quantiser writes the model once more.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = ir.load(source)
    even_out(model)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        evened = Path(folder) / source.name
        converter.save(model, evened)
        written = sum(path.stat().st_size for path in Path(folder).iterdir())
        if shutil.disk_usage(folder).free < COPIES * written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # It logs advice about a preparation that these files do not need.
        logging.disable(logging.WARNING)
        # It writes the model where temporary files go, which may be another disk, and a small one.
        elsewhere, tempfile.tempdir = tempfile.tempdir, folder
        try:
            quantize_dynamic(
                evened,
                target,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                use_external_data_format=sidecar_path(source).exists(),
            )
        except DecodeError as error:
            # What it writes on the way it does not check: a full disk cuts it off.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        finally:
            tempfile.tempdir = elsewhere
            logging.disable(logging.NOTSET)


def even_out(model: ir.Model) -> None:
    """Move the scale of outlier channels from a norm into the matrices that read it, in place.

    One scale serves a whole tensor of activations, so a single channel that is a hundred times
    larger leaves the others 1 % of the steps, whereas each output channel of a matrix has a scale
    of its own. Dividing a channel of the norm and multiplying the row of the matrix changes
    nothing else (SmoothQuant, arXiv 2211.10438, with alpha = 1/2). The norm's parameters tell how
    large its channels get, so no data are needed.
    """
    for node in model.graph:
        parameters = _affine(node)
        matrices = list(_matrices(node.outputs[0])) if parameters else []
        if not matrices:
            continue
        sizes = SPREAD * abs(_array(parameters[0])) + sum(abs(_array(p)) for p in parameters[1:])
        rows = np.max([abs(_array(matrix)).max(1) for matrix in matrices], axis=0)
        usable = (sizes > 0) & (rows > 0)
        factor = np.sqrt(np.where(usable, sizes, 1) / np.where(usable, rows, 1))
        factor = (factor / np.exp(np.log(factor).mean())).astype(np.float32)
        for parameter in parameters:
            _assign(parameter, _array(parameter) / factor)
        for matrix in matrices:
            _assign(matrix, _array(matrix) * factor[:, None])


def _affine(node: ir.Node) -> list[ir.Value]:
    """Scale and shift of a norm that nothing else reads; a decomposed norm ends in `x * scale`."""
    if node.op_type == "LayerNormalization":
        found = list(node.inputs[1:])
    elif node.op_type in ("Mul", "Add"):
        found = [value for value in node.inputs if _own(value, 1)]
    else:
        return []
    if node.op_type == "Add":
        scaled = next((v.producer() for v in node.inputs if v is not None and v.producer()), None)
        scale = _affine(scaled) if found and scaled is not None and _alone(scaled) else []
        found = [*scale, *found] if scale else []
    vectors = [value for value in found if value is not None and _own(value, 1)]
    return vectors if len(vectors) == len(found) else []


def _alone(node: ir.Node) -> bool:
    """Whether a product is read by one node only."""
    (value,) = node.outputs
    return node.op_type == "Mul" and len(value.uses()) == 1 and not value.is_graph_output()


def _matrices(value: ir.Value) -> Iterator[ir.Value]:
    """The matrices that a value is multiplied by, if nothing else happens to it."""
    if value.is_graph_output():
        return
    matrices = [
        node.inputs[1] if node.op_type == "MatMul" and index == 0 else None
        for node, index in value.uses()
    ]
    if all(matrix is not None and _own(matrix, 2) for matrix in matrices):
        yield from (matrix for matrix in matrices if matrix is not None)


def _own(value: ir.Value | None, rank: int) -> bool:
    """Whether this is a parameter of that rank which one node reads."""
    if value is None or not value.is_initializer() or value.dtype != ir.DataType.FLOAT:
        return False
    return value.shape is not None and len(value.shape) == rank and len(value.uses()) == 1


def _array(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None
    return value.const_value.numpy()


def _assign(value: ir.Value, array: np.ndarray) -> None:
    value.const_value = ir.tensor(array.astype(np.float32), name=value.name)
