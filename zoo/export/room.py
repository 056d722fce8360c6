"""Is there room for an export? What it needs and what there is are said before the work starts."""

import shutil

from weights.progress import Progress
from zoo.errors import BadOutput
from zoo.export.request import Request
from zoo.manifest.choices import Precision
from zoo.registry.entry import ModelInfo

LARGEST = 2_000_000_000
"""Bytes of a file without a sidecar, and of a model that is verified as a whole."""

BITS: dict[Precision, int] = {"fp32": 32, "fp16": 16, "bf16": 16, "int8": 8}

ON_THE_WAY: dict[Precision, float] = {"fp32": 0, "fp16": 1, "bf16": 1, "int8": 3.4}
"""How many files in float32 lie on the disk as well while one is made."""

BASE = 600_000_000
"""Bytes of memory that an export takes whatever the model: libraries and compiled code."""

WHOLE = 2
"""How many times the float32 model is in memory, if verified as a whole; 1.7 was measured."""

QUANTISED = 4
"""How many times a model is in memory that is quantised; 3.7 was measured."""

BLOCK = 3
"""How many times a block is in memory that is verified alone; 1.5 to 2.5 were measured."""


def written(entry: ModelInfo, precision: Precision) -> int:
    """How large a file of a model is, about."""
    return entry.parameters * BITS[precision] // 8


def disk(request: Request) -> int:
    """Bytes that the files take where they are written, with those that are there on the way."""
    entry, precision = request.model, request.options.precision
    joined = request.signature.input == "uint8"
    files = (len(request.opsets) + joined) * written(entry, precision)
    return files + round(ON_THE_WAY[precision] * written(entry, "fp32"))


def memory(request: Request) -> int:
    """Bytes of memory that an export needs, about."""
    whole = written(request.model, "fp32")
    if request.options.precision == "int8":
        return BASE + QUANTISED * whole
    if request.options.verify and written(request.model, request.options.precision) <= LARGEST:
        return BASE + WHOLE * whole
    return BASE + BLOCK * whole // request.model.config.layers


def check_room(request: Request, progress: Progress) -> None:
    """Say so where an export needs more than there is.

    **Raises** `BadOutput` where that is room on the disk. Memory may be freed by the time when it
    is needed, and the system may have some more on a disk.
    """
    folder = request.targets[0].absolute().parent
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    needed, free = disk(request), shutil.disk_usage(there).free
    if needed > free:
        raise BadOutput(
            f"cannot write {request.targets[0]}: it takes {_gb(needed)} in {there}, where "
            f"{_gb(free)} are free: make room there, or choose another place with --out."
        )
    # What is only written passes through memory a tensor at a time.
    if request.options.verify or request.options.precision != "fp32":
        _tell_memory(request, progress)


def _tell_memory(request: Request, progress: Progress) -> None:
    from psutil import virtual_memory

    needed, free = memory(request), virtual_memory().available
    if needed > free:
        progress.note(
            f"{request.model.name} needs about {_gb(needed)} of memory, and {_gb(free)} are free: "
            "close other programs if this one is stopped."
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
