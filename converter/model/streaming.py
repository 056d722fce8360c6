"""Write a model tensor by tensor, so that only a few tensors are in memory.

A protobuf message is its fields in any order, and a nested message is its length and its bytes. The
graph without initializers is therefore serialized as usual, followed by the initializers, each
written when it is read.

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

# The tags of fields with a length: field number << 3 | 2.
MODEL_GRAPH = 7 << 3 | 2
GRAPH_INITIALIZER = 5 << 3 | 2
TENSOR_RAW_DATA = 9 << 3 | 2

WriteBytes: TypeAlias = Callable[[bytes | memoryview], None]
"""Function that writes the next bytes of a file."""

WrittenCallback: TypeAlias = Callable[[str, bytes | memoryview], None]
"""Callback with the name of a file and its next bytes, called in order from a separate thread."""

MAX_WAITING = 8
"""Largest number of pieces that wait to be written."""

PIECE_BYTES = 4 << 20
"""Size of a piece in bytes; a piece has at least one entry of an array's first axis."""

STRIP_POSITIONS = 128
"""Number of positions of the last axis that are copied at once, so that the rows of a transposed
matrix stay in the processor's cache."""

MAX_INLINE_BYTES = 1024
"""Size in bytes up to which a tensor stays in the model although others are external: shapes and
axes."""


def write_single(model: ir.Model, path: Path, on_write: WrittenCallback | None = None) -> None:
    """Write a model to one file, with only a few tensors in memory at a time.

    Arguments:
        model: the model, with a tensor for each initializer.
        path: the path of the file.
        on_write: called with the name of the file and its next bytes, from a separate thread.
    """
    tensors = initial_tensors(model)
    proto = to_proto_with_external(model, tensors, path.name)
    frames = [_frame(stub, t) for stub, t in zip(proto.graph.initializer, tensors, strict=True)]
    proto.graph.ClearField("initializer")
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    body = sum(len(f) + t.nbytes for f, t in zip(frames, tensors, strict=True))
    with open_writer(path, on_write) as write:
        write(proto.SerializeToString() + _field_prefix(MODEL_GRAPH, len(graph) + body) + graph)
        for frame, tensor in zip(frames, tensors, strict=True):
            write(frame)
            _write_data(tensor, write)


def write_with_sidecar(
    model: ir.Model, path: Path, sidecar: Path, on_write: WrittenCallback | None = None
) -> None:
    """Write a model to one file, and its tensors larger than ``MAX_INLINE_BYTES`` bytes to another.

    Arguments:
        model: the model, with a tensor for each initializer.
        path: the path of the model.
        sidecar: the path of the file with the tensors, in the same folder.
        on_write: called with the name of each file and its next bytes, from a separate thread. The
            file with the tensors is written first.
    """
    tensors = [tensor for tensor in initial_tensors(model) if tensor.nbytes > MAX_INLINE_BYTES]
    with open_writer(sidecar, on_write) as write:
        for tensor in tensors:
            _write_data(tensor, write)
    proto = to_proto_with_external(model, tensors, sidecar.name)
    with open_writer(path, on_write) as write:
        write(proto.SerializeToString())


def initial_tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    """Return the tensors of all initializers that have one, in the order of the model."""
    values = model.graph.initializers.values()
    return [value.const_value for value in values if value.const_value is not None]


def _frame(stub: Any, tensor: ir.TensorProtocol) -> bytes:
    """Return the bytes that precede the data of a tensor in a file: tags, lengths, and the name,
    dtype and shape.

    ``stub`` is the protobuf message of the tensor, from which the reference to external data is
    removed.
    """
    stub.ClearField("external_data")
    stub.ClearField("data_location")
    head = stub.SerializeToString()
    data = _field_prefix(TENSOR_RAW_DATA, tensor.nbytes)
    return _field_prefix(GRAPH_INITIALIZER, len(head) + len(data) + tensor.nbytes) + head + data


def _field_prefix(tag: int, length: int) -> bytes:
    """Return the bytes before a protobuf field: its tag and the length of its content."""
    return _varint(tag) + _varint(length)


def _varint(number: int) -> bytes:
    """Return a number in protobuf's variable length: groups of seven bits, the lowest first.

    The highest bit of each byte is set if another byte follows.
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def to_proto_with_external(
    model: ir.Model, tensors: Sequence[ir.TensorProtocol], location: str
) -> Any:
    """Return the protobuf message of a model in which some tensors are stored outside.

    Arguments:
        model: the model, which is not changed.
        tensors: the tensors that are stored outside, one after the other from offset 0 on.
        location: the name of the file that has them.
    """
    values = list(model.graph.initializers.values())
    tensors_by_value = [value.const_value for value in values]
    offsets = accumulate((tensor.nbytes for tensor in tensors), initial=0)
    stubs = {
        id(t): _external_reference(t, location, offset)
        for t, offset in zip(tensors, offsets, strict=False)
    }
    try:
        for value in values:
            value.const_value = stubs.get(id(value.const_value), value.const_value)
        return ir.to_proto(model)
    finally:
        for value, tensor in zip(values, tensors_by_value, strict=True):
            value.const_value = tensor


def _external_reference(tensor: ir.TensorProtocol, location: str, offset: int) -> ir.ExternalTensor:
    """Return a reference to a tensor in the file ``location`` at an offset in bytes."""
    shape, name = ir.Shape(tensor.shape.numpy()), tensor.name or ""
    return ir.ExternalTensor(location, offset, tensor.nbytes, tensor.dtype, shape=shape, name=name)


def _write_data(tensor: ir.TensorProtocol, write: WriteBytes) -> None:
    """Write the bytes of a tensor as ONNX stores them, in pieces. Types below 8 bits are packed."""
    for piece in [tensor.tobytes()] if tensor.dtype.bitwidth < 8 else byte_pieces(tensor.numpy()):
        write(piece)


# ------------------------------------------------------------------------- bytes and threads


@contextmanager
def open_writer(path: Path, on_write: WrittenCallback | None = None) -> Generator[WriteBytes]:
    """Open a new file, and yield a function that writes the next bytes in a separate thread.

    An existing file is overwritten. At most ``MAX_WAITING`` pieces wait to be written; the function
    then waits for the oldest. An error in a thread is raised by a later call or at the end of the
    context.

    Arguments:
        path: the path of the file.
        on_write: called in another thread with the name of the file and each piece in order.
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
            if on_write is not None:
                waiting[-1].append(notifier.submit(on_write, path.name, piece))

        yield write
        while waiting:
            wait_for_oldest()


def byte_pieces(array: np.ndarray) -> Iterator[memoryview]:
    """Yield the bytes of an array in C order, in pieces of about ``PIECE_BYTES``.

    Nothing is copied if the array is contiguous. Otherwise each piece is a copy of one or more
    entries of the first axis.
    """
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, PIECE_BYTES):
            yield flat[start : start + PIECE_BYTES].data
        return
    rows = max(1, PIECE_BYTES // array[0].nbytes)
    for start in range(0, len(array), rows):
        yield copy_in_c_order(array[start : start + rows]).reshape(-1).view(np.uint8).data


def copy_in_c_order(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array in C order."""
    out = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[-1], STRIP_POSITIONS):
        strip = np.s_[..., start : start + STRIP_POSITIONS]
        # The strip is first copied in its memory order. Otherwise rows whose distance is a power of
        # two would evict each other from the cache.
        out[strip] = array[strip].copy(order="K")
    return out
