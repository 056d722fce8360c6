"""ONNX Runtime as it is installed here: its providers, what it raises, which nodes run where."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

import converter
from converter.opsets import is_older, too_old
from weights.opening import open_regular
from zoo.common.errors import BadRequest, MissingLibrary

try:
    import onnxruntime as ort
except ModuleNotFoundError as error:
    raise MissingLibrary(
        f"{error.name} is not installed: `pip install onnxruntime`, or `onnxruntime-gpu` or "
        "`onnxruntime-directml` for those builds of it."
    ) from error

if outdated := too_old(ort.__version__):
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
    # Of inputs that do not fit; and of messages that quote a file's own bytes, no text at all.
    ValueError,
    MemoryError,
)
"""What loading or running a file may raise; ONNX Runtime's own have no common base."""

RECORDED = {"session.record_ep_graph_assignment_info": "1"}
"""Makes a session remember which provider got which node (ONNX Runtime 1.24 and newer)."""

RESTING = {"session.force_spinning_stop": "1"}
"""Threads search for work during a run only: after it they would take the time of others."""


def available() -> list[str]:
    """The execution providers of this installation, the preferred first."""
    return list(ort.get_available_providers())


def check_provider(name: str) -> None:
    """**Raises** `BadRequest` for an execution provider that is not part of this installation."""
    names = available()
    if name not in names:
        raise BadRequest(
            f"provider {name} is not installed: choose from {', '.join(names)}, or install the "
            "ONNX Runtime package that has it."
        )


def session(model: Path | ir.Model, provider: str = CPU, level: Level = "all") -> Session:
    """A session that prefers a provider; what that cannot compute falls back to the CPU.

    `level` is how much of ONNX Runtime's optimiser runs.

    **Raises** one of `ERRORS`, or `BadRequest` where the provider finds no device.
    """
    if isinstance(model, Path):
        _check_file(model)
    providers = list(dict.fromkeys([provider, CPU]))
    live = converter.session(model, providers, RECORDED | RESTING, level=level)
    check_started(live, provider)
    return live


def lower_sessions(model: Path | ir.Model, provider: str = CPU) -> Iterator[tuple[Level, Session]]:
    """Sessions at all levels of optimisation below the one that users have, one after the other."""
    # JAX is imported only where a model is verified.
    from converter.verify.sessions import levels

    for level in levels(model)[:-1]:
        yield level, session(model, provider, level)


def open_session(
    model: Path | bytes,
    providers: Sequence[str] = (CPU,),
    *,
    threads: int = 0,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """A session as ONNX Runtime opens a file by itself, which needs no JAX.

    It has so many threads, or as many as there are cores, and falls back to no other providers.
    **Raises** one of `ERRORS`.
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
    """**Raises** `OSError` for a pipe, which ONNX Runtime waits for, and a name it cannot take."""
    open_regular(model).close()
    try:
        os.fspath(model).encode()
    except UnicodeEncodeError as error:
        raise OSError(errno.EILSEQ, "its name is no UTF-8", os.fspath(model)) from error


def check_started(live: Session, provider: str) -> None:
    """**Raises** `BadRequest` where a session has fallen back to other providers."""
    if provider not in live.get_providers():
        raise BadRequest(
            f"provider {provider} is installed but does not start here (no device, or a library "
            "is missing): choose another."
        )


def placed(live: Session) -> dict[str, Counter[str]] | None:
    """Count by provider how many nodes of which operators a session of `session` gave it; None
    where that is not known, before ONNX Runtime 1.24."""
    if is_older(ort.__version__, "1.24"):
        return None
    placement: dict[str, Counter[str]] = {}
    for part in live.get_provider_graph_assignment_info():
        counts = placement.setdefault(part.ep_name, Counter())
        counts.update(node.op_type for node in part.get_nodes())
    return placement
