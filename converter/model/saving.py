"""Bind values to initializers and write the file: lazily, atomically and reproducibly."""

import logging
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.errors import SaveError, SpecError
from converter.frontend.array_forms import key_numbers
from converter.ir import Graph, Value
from converter.ir.complex_pairs import pack_complex
from converter.ir.evaluation import Read, compute_array
from converter.ir.origins import sources
from converter.model.streaming import (
    MAX_INLINE_BYTES,
    WrittenCallback,
    initial_tensors,
    write_single,
    write_with_sidecar,
)

logger = logging.getLogger(__name__)

Progress = Callable[[str, int], None]
MAX_FILE_BYTES = 2_000_000_000
"""Largest size of the weights in a model file. Larger weights go into a separate file, since a
protobuf message is limited to 2 GiB."""


def bind(
    model: ir.Model,
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Give each initializer that is a parameter a tensor that is read or computed when the file is
    written.

    Arguments:
        model: the model whose initializers are bound, in place.
        graph: the graph that the model was lowered from, with the parameters.
        values: arrays by parameter name, read one at a time. They replace values that are already
            bound. Unknown names are ignored.
        progress: called with the name of each tensor and its size in bytes when the tensor has been
            read or computed.

    Raises:
        SpecError: a parameter has no value. A value of another dtype or shape raises it when it is
            read, which may be when the file is written.
        SaveError: a fusion depends on the numbers that were bound during the conversion, and the
            given numbers differ.
    """
    values_by_name = values or {}
    # The names are copied, because a lazy mapping may have to read a value to check whether it
    # exists.
    names = frozenset(values_by_name)
    _check_names(model, graph, names)

    def read(value: Value) -> Any:
        if value.name in names and value.kind == "param":
            return _check_value(value, np.asarray(key_numbers(values_by_name[value.name])))
        return np.asarray(value.bound if value.kind == "param" else value.const)

    _check_facts(graph, names, read)
    for value in _read_parameters(model, graph):
        model.graph.initializers[value.name].const_value = _lazy_tensor(value, read, progress)


def missing_parameters(
    model: ir.Model, graph: Graph, given_names: Collection[str] = ()
) -> list[str]:
    """Return the names of parameters that the model needs and that have no value yet.

    Parameters are not included if only their shape is needed. Parameters from which a weight
    program is computed are included.

    Arguments:
        model: the model.
        graph: the graph that it was lowered from.
        given_names: names of parameters that will get a value, which are omitted.
    """
    return [
        v.name
        for v in _leaf_parameters(model, graph)
        if v.bound is None and v.name not in given_names
    ]


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    external_data: bool | None = None,
    on_write: WrittenCallback | None = None,
) -> None:
    """Write the model to ``path``, completely or not at all.

    An existing file is replaced. Missing folders are created. If no separate file is written, an
    existing ``<path>_data`` is not deleted.

    Arguments:
        model: the model, with a tensor for each initializer.
        path: the path of the file.
        external_data: True to write the tensors above 1 KiB to ``<path>_data``. None does so only
            if the tensors have more than ``MAX_FILE_BYTES`` bytes together. False does not.
        on_write: called with the name of each file and its next bytes, from a separate thread, for
            example to compute a digest without reading the file again.

    Raises:
        SpecError: ``external_data`` is False and the weights are too large for one file.
        SaveError: the file cannot be written.
    """
    target = Path(path)
    external = _is_external(model, target, external_data)
    prefix, sidecar_name = f".{target.name}.", target.name + "_data"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(None, prefix, target.parent, ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            if external:
                write_with_sidecar(model, scratch / target.name, scratch / sidecar_name, on_write)
                os.replace(scratch / sidecar_name, target.parent / sidecar_name)
            else:
                write_single(model, scratch / target.name, on_write)
            os.replace(scratch / target.name, target)
    except OSError as error:
        # The error number of the operating system is kept for callers that catch an ``OSError``.
        failure = SaveError(f"{target} cannot be written: {error.strerror or error}")
        failure.errno, failure.strerror = error.errno, error.strerror
        raise failure from error
    size = sum(tensor.nbytes for tensor in initial_tensors(model))
    logger.info("wrote %s (%d bytes of weights)", target, size)


def _is_external(model: ir.Model, target: Path, external_data: bool | None) -> bool:
    """Return True if the weights go into a separate file.

    This is the case if they are too large for one file, or if ``external_data`` is True and a
    tensor is larger than 1 KiB.

    Raises:
        SpecError: ``external_data`` is False and the weights are too large for one file.
    """
    sizes = [tensor.nbytes for tensor in initial_tensors(model)]
    too_large = sum(sizes) > MAX_FILE_BYTES
    if too_large and external_data is not None and not external_data:
        raise SpecError(
            f"{target} would have {sum(sizes):,} bytes of weights, and a file of its kind ends at "
            f"{MAX_FILE_BYTES:,}: leave out external_data"
        )
    return too_large or (bool(external_data) and max(sizes, default=0) > MAX_INLINE_BYTES)


def _read_parameters(model: ir.Model, graph: Graph) -> list[Value]:
    """Return the parameters that the model reads as initializers.

    The lowering may need only the shape of others.
    """
    return [v for v in graph.params if v.name in model.graph.initializers]


def _leaf_parameters(model: ir.Model, graph: Graph) -> list[Value]:
    """Return the parameters that need a value for the model to be written, each once.

    For a weight program, these are the parameters that it is computed from.
    """
    leaves: dict[int, Value] = {}
    for value in _read_parameters(model, graph):
        leaves |= sources(value.program or value)
    return [leaf for leaf in leaves.values() if leaf.kind == "param"]


def _check_names(model: ir.Model, graph: Graph, named: Collection[str]) -> None:
    """Raise `SpecError` if a parameter has neither a bound value nor a name in ``named``."""
    missing_names = missing_parameters(model, graph, named)
    if missing_names:
        listing = ", ".join(missing_names[:5]) + (
            f" and {len(missing_names) - 5} more" if len(missing_names) > 5 else ""
        )
        raise SpecError(
            f"{len(missing_names)} parameters have no value: {listing}; "
            "pass them in values, by name"
        )


def _check_facts(graph: Graph, names: Collection[str], read: Read) -> None:
    """Raise `SaveError` if a fact that a fusion relied on does not hold for the values that are
    saved.

    Only facts about the parameters in ``names`` are checked, since these get other values. ``read``
    returns the array of a parameter or constant.
    """
    for (_, sentence), fact in graph.facts.items():
        parameters = [v.name for v in sources(fact.value).values() if v.kind == "param"]
        if set(parameters) & set(names) and not fact.holds(
            np.asarray(compute_array(fact.value, read))
        ):
            raise SaveError(
                f"a fusion relies on the fact that {sentence} in {' + '.join(parameters)}, which "
                "does not hold for the given values: convert with these values in params, or with "
                "abstract ones (jax.ShapeDtypeStruct), for which no such fact is assumed"
            )


def _check_value(value: Value, array: np.ndarray) -> np.ndarray:
    """Return the array of a parameter in native byte order, with the parts of complex numbers on
    the last axis.

    Raises:
        SpecError: its dtype or shape is another one than the parameter's.
    """
    native: np.ndarray = pack_complex(array.astype(array.dtype.newbyteorder("="), copy=False))
    if native.shape != value.shape or native.dtype != value.dtype:
        raise SpecError(
            f"parameter {value.name} is {value.type_text()}, received "
            f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
        )
    return native


def _lazy_tensor(value: Value, read: Read, progress: Progress | None) -> ir.LazyTensor:
    """Return a tensor for a parameter that is read or computed when its numbers are needed.

    ``read`` returns the array of a parameter or constant. ``progress`` is called afterwards with
    the name of the tensor and its size in bytes.
    """

    def load() -> ir.TensorProtocol:
        array = compute_array(value.program or value, read)
        if progress is not None:
            progress(value.name, array.nbytes)
        return ir.tensor(array, name=value.name)

    dtype = ir.DataType.from_numpy(value.dtype)
    return ir.LazyTensor(load, dtype=dtype, shape=ir.Shape(value.shape), name=value.name)
