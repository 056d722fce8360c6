"""Estimate the disk space and memory of exports and builds, before the work starts."""

import shutil

from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.choices import Precision
from zoo.common.errors import BadOutput
from zoo.export.precisions import PRECISIONS
from zoo.export.request import Plan

MAX_UNSPLIT_BYTES = 2_000_000_000
"""Largest size in bytes of a file without a sidecar, and of a float32 model whose verification runs
the full network at once and not block by block."""

BASE_MEMORY = 600_000_000
"""Bytes of memory for libraries and compiled code, for any model."""

PATCHES_WARNING_RATIO = 16
"""A warning is printed if an image has at least this many times the pixels of the model's usual
size."""

FULL_MODEL_COPIES = 2
"""Number of copies of the float32 model in memory if its verification runs the full network at
once; 1.7 was measured."""

BLOCK_COPIES = 3
"""Number of copies of a block in memory if the verification runs block by block; 1.5 to 2.5 were
measured."""

FOLDER_COPIES = 8
"""Number of copies of the float32 model in memory while all variants are built; 7.2 to 7.7 were
measured on networks of 22 and 86 million parameters."""


def estimate_file_bytes(entry: ModelInfo, precision: Precision) -> int:
    """Return the approximate size in bytes of a model's file, from its number of parameters."""
    return round(entry.parameters * PRECISIONS[precision].bits / 8)


def estimate_disk_bytes(plan: Plan) -> int:
    """Return the bytes of disk space that an export needs, including its temporary files."""
    entry, precision = plan.model, plan.options.precision
    is_joined = plan.signature.input == "uint8"
    # Lower precisions are written from a float32 file, which exists until they are complete.
    source = estimate_file_bytes(entry, "fp32") if precision != "fp32" else 0
    # A calibration writes candidates and keeps the best one.
    candidates = 2 * estimate_file_bytes(entry, precision) if plan.pictures else 0
    return (
        (len(plan.files) + is_joined) * estimate_file_bytes(entry, precision) + source + candidates
    )


def estimate_memory_bytes(entry: ModelInfo, copies: float) -> int:
    """Return the approximate bytes of memory for `copies` float32 copies of a model, plus the
    libraries.

    `copies` may be a fraction, for work that holds one block at a time.
    """
    return BASE_MEMORY + round(copies * estimate_file_bytes(entry, "fp32"))


def check_resources(plan: Plan, progress: Progress) -> None:
    """Check the free disk space and memory before an export starts.

    Lack of memory leads to a warning only, because memory may be freed by the time it is needed and
    the system may swap. An image size much larger than usual leads to a warning too. **Raises**
    `BadOutput` if the export needs more disk space than is free.
    """
    folder = plan.targets[0].absolute().parent
    existing_folder = next(path for path in (folder, *folder.parents) if path.is_dir())
    needed, free = estimate_disk_bytes(plan), shutil.disk_usage(existing_folder).free
    if needed > free:
        raise BadOutput(
            f"cannot write {plan.targets[0]}: it takes {_format_gb(needed)} in {existing_folder}, "
            f"where {_format_gb(free)} are free: make room there, or choose another place with "
            f"{parameter('out')}."
        )
    # A file that is only written needs memory for one tensor at a time.
    if plan.options.verify or plan.options.precision != "fp32":
        _warn_about_memory(plan, progress)
    if plan.options.verify:
        _warn_about_patches(plan, progress)


def _warn_about_memory(plan: Plan, progress: Progress) -> None:
    """Print a warning if the export needs more memory than is free now."""
    from psutil import virtual_memory

    entry, options = plan.model, plan.options
    is_in_one_piece = (
        options.verify and estimate_file_bytes(entry, options.precision) <= MAX_UNSPLIT_BYTES
    )
    copies = (
        FULL_MODEL_COPIES
        if is_in_one_piece
        else BLOCK_COPIES / (entry.config.num_hidden_states or entry.config.depth)
    )
    needed, free = estimate_memory_bytes(entry, copies), virtual_memory().available
    if needed > free:
        progress.note(
            f"{entry.name} needs about {_format_gb(needed)} of memory, and {_format_gb(free)} are "
            "free: close other programs if this one is stopped."
        )


def _warn_about_patches(plan: Plan, progress: Progress) -> None:
    """Print a warning if the images have at least 16 times the pixels that the model is for.

    Attention compares all patches with all others, so that its time grows with the square of this
    ratio. A model without attention over the full image is not warned about.
    """
    (height, width), native_size = plan.signature.size or (0, 0), plan.model.native_size
    ratio = height * width / (native_size[0] * native_size[1])
    if ratio >= PATCHES_WARNING_RATIO and plan.model.config.has_global_attention:
        progress.note(
            f"{height} x {width} pixels are {ratio:,.0f} times the patches that "
            f"{plan.model.name} is for: its attention takes {ratio**2:,.0f} times as long."
        )


def _format_gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
