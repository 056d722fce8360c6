"""What exports and builds need of disk and memory, said before the work starts."""

import shutil

from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.choices import Precision
from zoo.common.errors import BadOutput
from zoo.export.precisions import PRECISIONS
from zoo.export.request import Plan

LARGEST_WHOLE = 2_000_000_000
"""Bytes of a file without a sidecar, and of a model that is verified as a whole."""

BASE_MEMORY = 600_000_000
"""Bytes of memory that are taken whatever the model: libraries and compiled code."""

MANY_PATCHES = 16
"""How many times the usual patches are worth a word."""

WHOLE = 2
"""How many times the float32 model is in memory, if verified as a whole; 1.7 was measured."""

BLOCK_COPIES = 3
"""How many times a block is in memory that is verified alone; 1.5 to 2.5 were measured."""

FOLDER_COPIES = 8
"""How many times it is there while all its variants are built; 7.2 to 7.7 were measured on networks
of 22 and 86 million parameters."""


def written(entry: ModelInfo, precision: Precision) -> int:
    """How large a file of a model is, about."""
    return round(entry.parameters * PRECISIONS[precision].bits / 8)


def disk(plan: Plan) -> int:
    """Bytes that the files take where they are written, with those that are there on the way."""
    entry, precision = plan.model, plan.options.precision
    joined = plan.signature.input == "uint8"
    # Others are made from a file in float32, which lies beside them as long.
    source = written(entry, "fp32") if precision != "fp32" else 0
    # Of those that are calibrated, three are made to choose from.
    others = 2 * written(entry, precision) if plan.pictures else 0
    return (len(plan.files) + joined) * written(entry, precision) + source + others


def memory(entry: ModelInfo, copies: float) -> int:
    """Bytes of memory that it takes to have a model so many times in float32, about."""
    return BASE_MEMORY + round(copies * written(entry, "fp32"))


def check_resources(plan: Plan, progress: Progress) -> None:
    """Say so where an export needs more than there is.

    **Raises** `BadOutput` where that is room on the disk. Memory may be freed by the time when it
    is needed, and the system may have some more on a disk.
    """
    folder = plan.targets[0].absolute().parent
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    needed, free = disk(plan), shutil.disk_usage(there).free
    if needed > free:
        raise BadOutput(
            f"cannot write {plan.targets[0]}: it takes {_gb(needed)} in {there}, where "
            f"{_gb(free)} are free: make room there, or choose another place with "
            f"{parameter('out')}."
        )
    # What is only written passes through memory a tensor at a time.
    if plan.options.verify or plan.options.precision != "fp32":
        _tell_memory(plan, progress)
    if plan.options.verify:
        _tell_patches(plan, progress)


def _tell_memory(plan: Plan, progress: Progress) -> None:
    from psutil import virtual_memory

    entry, asked = plan.model, plan.options
    is_whole = asked.verify and written(entry, asked.precision) <= LARGEST_WHOLE
    copies = (
        WHOLE if is_whole else BLOCK_COPIES / (entry.config.num_hidden_states or entry.config.depth)
    )
    needed, free = memory(entry, copies), virtual_memory().available
    if needed > free:
        progress.note(
            f"{entry.name} needs about {_gb(needed)} of memory, and {_gb(free)} are free: "
            "close other programs if this one is stopped."
        )


def _tell_patches(plan: Plan, progress: Progress) -> None:
    """Attention compares all patches with all others."""
    (height, width), usual = plan.signature.size or (0, 0), plan.model.native
    times = height * width / (usual[0] * usual[1])
    if times >= MANY_PATCHES and plan.model.config.has_global_attention:
        progress.note(
            f"{height} x {width} pixels are {times:,.0f} times the patches that "
            f"{plan.model.name} is for: its attention takes {times**2:,.0f} times as long."
        )


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
