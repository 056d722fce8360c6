"""The installed ONNX Runtime: providers, sessions, exceptions and the placement of nodes."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

import converter
from converter.opsets import is_older, warning_if_too_old
from weights.opening import open_regular
from zoo.common.errors import BadRequest, MissingLibrary

try:
    import onnxruntime as ort
except ModuleNotFoundError as error:
    raise MissingLibrary(
        f"{error.name} is not installed: `pip install onnxruntime`, or `onnxruntime-gpu` or "
        "`onnxruntime-directml` for those builds of it."
    ) from error

if outdated := warning_if_too_old(ort.__version__):
    raise MissingLibrary(f"{outdated}.")

from onnxruntime.capi import onnxruntime_pybind11_state as state

if TYPE_CHECKING:
    from converter.model.verdict import Level

Session: TypeAlias = ort.InferenceSession
NodeArg: TypeAlias = ort.NodeArg

VERSION = f"ONNX Runtime {ort.__version__}"
RELEASE: str = ort.__version__

CPU = "CPUExecutionProvider"

ERRORS: tuple[type[Exception], ...] = (
    *(state.EPFail, state.EngineError, state.Fail, state.InvalidArgument, state.InvalidGraph),
    *(state.InvalidProtobuf, state.NoModel, state.NoSuchFile, state.NotFound),
    *(state.NotImplemented, state.RuntimeException, RuntimeError),
    # For inputs of a wrong shape or dtype, and for error messages that are not valid UTF-8.
    ValueError,
    MemoryError,
)
"""The exceptions that loading or running a file may raise. Those of ONNX Runtime have no common
base class."""

RECORD_ASSIGNMENT = {"session.record_ep_graph_assignment_info": "1"}
"""A setting with which a session records the provider of each node (ONNX Runtime 1.24 and newer).
"""

NO_SPINNING = {"session.force_spinning_stop": "1"}
"""A setting with which the threads of a session do not spin between runs, so that they take no time
from others."""


def available_providers() -> list[str]:
    """Return the execution providers of the installed ONNX Runtime, the preferred one first."""
    return list(ort.get_available_providers())


def check_provider(name: str) -> None:
    """Check that an execution provider, such as `CUDAExecutionProvider`, is installed.

    **Raises** `BadRequest` with the names of the installed ones.
    """
    names = available_providers()
    if name not in names:
        raise BadRequest(
            f"provider {name} is not installed: choose from {', '.join(names)}, or install the "
            "ONNX Runtime package that has it."
        )


def session(model: Path | ir.Model, provider: str = CPU, level: Level = "all") -> Session:
    """Open an ONNX Runtime session of a file or of a model in memory, to verify or measure it.

    Nodes that the provider does not support run on the CPU. The session records the provider of
    each node. `level` is the optimization level of ONNX Runtime. Use `open_session` if JAX must not
    be imported.

    **Raises** one of `ERRORS` if the model does not load, `OSError` if a path is no regular file,
    and `BadRequest` if the provider cannot start, for example because there is no device.
    """
    if isinstance(model, Path):
        _check_file(model)
    providers = list(dict.fromkeys([provider, CPU]))
    opened_session = converter.session(
        model, providers, RECORD_ASSIGNMENT | NO_SPINNING, level=level
    )
    check_started(opened_session, provider)
    return opened_session


def sessions_below_highest_level(
    model: Path | ir.Model, provider: str = CPU
) -> Iterator[tuple[Level, Session]]:
    """Yield each optimization level below the highest one, with a session at that level.

    The lowest level comes first. Yield nothing for a model whose tensors are in a separate file,
    because it is run at one level only.
    """
    # JAX is imported only where a model is verified.
    from converter.verify.sessions import select_levels

    for level in select_levels(model)[:-1]:
        yield level, session(model, provider, level)


def open_session(
    model: Path | bytes,
    providers: Sequence[str] = (CPU,),
    *,
    threads: int = 0,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """Open a session of a file or of its bytes with ONNX Runtime's defaults, without importing JAX.

    **Arguments**

    - `providers`: the execution providers to use, the preferred one first. If one of them does not
      start, ONNX Runtime may leave it out; `check_started` detects this.
    - `threads`: the number of threads for one operator. 0 means the number of cores.
    - `settings`: configuration entries of the session, by ONNX Runtime's keys.

    **Raises** one of `ERRORS` if the model does not load, and `OSError` if a path is no regular
    file.
    """
    if isinstance(model, Path):
        _check_file(model)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(model, options, providers=list(providers), enable_fallback=0)


def _check_file(model: Path) -> None:
    """Check that ONNX Runtime can open the file at a path.

    **Raises** `OSError` if the path is no regular file, such as a pipe on which ONNX Runtime would
    wait, or if its name is not valid UTF-8.
    """
    open_regular(model).close()
    try:
        os.fspath(model).encode()
    except UnicodeEncodeError as error:
        raise OSError(errno.EILSEQ, "its name is no UTF-8", os.fspath(model)) from error


def check_started(opened_session: Session, provider: str) -> None:
    """Check that a session runs on a provider, instead of having fallen back to other providers.

    **Raises** `BadRequest` if the provider did not start, for example because there is no device.
    """
    if provider not in opened_session.get_providers():
        raise BadRequest(
            f"provider {provider} is installed but does not start here (no device, or a library "
            "is missing): choose another."
        )


def read_placement(opened_session: Session) -> dict[str, Counter[str]] | None:
    """Return the number of nodes by provider and operator, as `{provider: {operator: number}}`.

    `opened_session` must come from `session`, which asks ONNX Runtime to record this. Return None
    for ONNX Runtime before 1.24, which cannot record it.
    """
    if is_older(ort.__version__, "1.24"):
        return None
    placement: dict[str, Counter[str]] = {}
    for part in opened_session.get_provider_graph_assignment_info():
        counts = placement.setdefault(part.ep_name, Counter())
        counts.update(node.op_type for node in part.get_nodes())
    return placement
