"""Writing a model tensor by tensor, so that no more than a few of them are in memory.

A protobuf message is its fields in any order, and a nested message is its length and its bytes. So
the graph without its initializers is serialised as usual, and the initializers follow it, each
written as it is read.

Source: https://protobuf.dev/programming-guides/encoding, field numbers from onnx/onnx.proto.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

# Tags: field number << 3 | 2, for something that has a length.
MODEL_GRAPH = 7 << 3 | 2
GRAPH_INITIALIZER = 5 << 3 | 2
TENSOR_RAW_DATA = 9 << 3 | 2

WriteBytes: TypeAlias = Callable[[bytes | memoryview], None]
"""Takes the next bytes of a file."""

WrittenCallback: TypeAlias = Callable[[str, bytes | memoryview], None]
"""Is told the name of a file and its bytes in their order, from a thread of its own."""

MAX_WAITING = 8
"""Pieces that may wait to be written."""

PIECE_BYTES = 4 << 20
"""Bytes of a piece; one holds a whole index of an array's first axis at least."""

STRIP_POSITIONS = 128
"""Positions of the last axis that are copied at once. What is read of a transposed matrix lies in
so many rows, which a processor's cache holds."""

INLINE = 1024
"""Bytes up to which a tensor stays in the model when others go beside it: shapes and the like."""


def write_single(model: ir.Model, path: Path, written: WrittenCallback | None = None) -> None:
    """One file with everything in it."""
    tensors = initial_tensors(model)
    proto = with_external(model, tensors, path.name)
    frames = [_frame(stub, t) for stub, t in zip(proto.graph.initializer, tensors, strict=True)]
    proto.graph.ClearField("initializer")
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    body = sum(len(f) + t.nbytes for f, t in zip(frames, tensors, strict=True))
    with open_writer(path, written) as write:
        write(proto.SerializeToString() + _tagged(MODEL_GRAPH, len(graph) + body) + graph)
        for frame, tensor in zip(frames, tensors, strict=True):
            write(frame)
            _write_data(tensor, write)


def write_with_sidecar(
    model: ir.Model, path: Path, sidecar: Path, written: WrittenCallback | None = None
) -> None:
    """The graph in one file, what is larger than ``INLINE`` in another beside it."""
    tensors = [tensor for tensor in initial_tensors(model) if tensor.nbytes > INLINE]
    with open_writer(sidecar, written) as write:
        for tensor in tensors:
            _write_data(tensor, write)
    proto = with_external(model, tensors, sidecar.name)
    with open_writer(path, written) as write:
        write(proto.SerializeToString())


def initial_tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    """The tensors of a model's initializers that have one, in order."""
    values = model.graph.initializers.values()
    return [value.const_value for value in values if value.const_value is not None]


def _frame(stub: Any, tensor: ir.TensorProtocol) -> bytes:
    """Everything of an initializer that precedes its data."""
    stub.ClearField("external_data")
    stub.ClearField("data_location")
    head = stub.SerializeToString()
    data = _tagged(TENSOR_RAW_DATA, tensor.nbytes)
    return _tagged(GRAPH_INITIALIZER, len(head) + len(data) + tensor.nbytes) + head + data


def _tagged(tag: int, length: int) -> bytes:
    return _varint(tag) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth bit says that more follow."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def with_external(model: ir.Model, tensors: Sequence[ir.TensorProtocol], location: str) -> Any:
    """The model's protobuf message, these tensors one after the other in ``location``."""
    values = list(model.graph.initializers.values())
    tensors_by_value = [value.const_value for value in values]
    offsets = accumulate((tensor.nbytes for tensor in tensors), initial=0)
    stubs = {id(t): _stub(t, location, at) for t, at in zip(tensors, offsets, strict=False)}
    try:
        for value in values:
            value.const_value = stubs.get(id(value.const_value), value.const_value)
        return ir.to_proto(model)
    finally:
        for value, tensor in zip(values, tensors_by_value, strict=True):
            value.const_value = tensor


def _stub(tensor: ir.TensorProtocol, location: str, offset: int) -> ir.ExternalTensor:
    shape, name = ir.Shape(tensor.shape.numpy()), tensor.name or ""
    return ir.ExternalTensor(location, offset, tensor.nbytes, tensor.dtype, shape=shape, name=name)


def _write_data(tensor: ir.TensorProtocol, write: WriteBytes) -> None:
    """A tensor's bytes as ONNX stores them: those of numpy, but for numbers of less than a byte."""
    for piece in [tensor.tobytes()] if tensor.dtype.bitwidth < 8 else pieces(tensor.numpy()):
        write(piece)


# ------------------------------------------------------------------------- bytes and threads


@contextmanager
def open_writer(path: Path, written: WrittenCallback | None = None) -> Generator[WriteBytes]:
    """A new file, which one thread writes; another one tells ``written`` what is in it.

    Not more than ``WAITING`` pieces wait. What goes wrong in a thread is raised by the call after
    it, or on the way out.
    """
    waiting: deque[list[Future[object]]] = deque()

    def wait_for_oldest() -> None:
        for future in waiting.popleft():
            future.result()

    threads = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with path.open("wb") as file, threads[0] as writer, threads[1] as notifier:

        def write(piece: bytes | memoryview) -> None:
            if len(waiting) == MAX_WAITING:
                wait_for_oldest()
            waiting.append([writer.submit(file.write, piece)])
            if written is not None:
                waiting[-1].append(notifier.submit(written, path.name, piece))

        yield write
        while waiting:
            wait_for_oldest()


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, as C orders them; not copied where they lie in memory like that."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, PIECE_BYTES):
            yield flat[start : start + PIECE_BYTES].data
        return
    rows = max(1, PIECE_BYTES // array[0].nbytes)
    for start in range(0, len(array), rows):
        yield to_c_order(array[start : start + rows]).reshape(-1).view(np.uint8).data


def to_c_order(array: np.ndarray) -> np.ndarray:
    """A copy whose bytes are as C orders them."""
    out = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[-1], STRIP_POSITIONS):
        strip = np.s_[..., start : start + STRIP_POSITIONS]
        # Side by side first, in their own order: rows whose distance is a power of two would push
        # each other out of the cache.
        out[strip] = array[strip].copy(order="K")
    return out
