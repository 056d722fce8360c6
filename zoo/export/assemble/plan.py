"""Define the variants that a folder may hold, and plan a folder."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from converter.opsets import DEFAULT_TARGET, FIRST_FUSED_OPSET, OPSETS
from weights.parameters import parameter
from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import TOWER_NAMES, nested_networks
from zoo.artifacts.choices import Target
from zoo.checkpoints.source import WeightsChoice
from zoo.common.errors import BadRequest
from zoo.common.options import SEVERAL, Option
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Options, Plan, newest_with_scales, read_signature
from zoo.images.picture_folder import PictureFolder


def _variant_specs() -> Iterator[FileSpec]:
    """Yield the description of each variant's file: one of each precision, and a float32 file with
    fused operators."""
    for precision, traits in PRECISIONS.items():
        row = FileSpec(
            size=None,
            batch=None,
            path=f"onnx/{traits.file}.onnx",
            opset=traits.opset,
            precision=precision,
            variant=precision,
        )
        yield row
        if precision == "fp32":
            yield replace(
                row, path="onnx/model_fused.onnx", opset=FIRST_FUSED_OPSET, variant="fused"
            )


VARIANTS = {row.variant: row for row in _variant_specs()}
"""File of each variant of a full network, by the name of the variant."""

MIN_OPSETS = {name: PRECISIONS[row.precision].min_opset for name, row in VARIANTS.items()}
"""Oldest opset of each variant."""
MIN_OPSETS["fused"] = FIRST_FUSED_OPSET

TOWER_FILES = {
    f"{tower}_{name}": replace(
        row,
        path=row.path.replace("/model", f"/{tower}_model"),
        variant=f"{tower}_{name}",
        tower=tower,
    )
    for tower in TOWER_NAMES
    for name, row in VARIANTS.items()
}
"""Files of the same variants for each tower of a network with two towers. transformers.js downloads
files of these names."""

PLANNED_FILES = VARIANTS | TOWER_FILES
"""All files that may be in a folder, in the order of the manifest."""

DEFAULT_VARIANTS = ("fp32", "fused", "fp16", "int8")
"""Variants that are built by default. No runtime computes in bfloat16 on CPUs, and files of four
bits are for users who need small files."""


def variant_option(default: str) -> Option:
    """Return the command-line option that selects variants. `default` is its default in words, for
    the help text."""
    *names, last = VARIANTS
    return Option(
        "NAME",
        f"The variants {', '.join(names)} or {last}, or `all` of them. {SEVERAL}",
        default=default,
        several=True,
    )


def find_newest_opset(target: Target) -> int:
    """Return the newest opset that a target runtime loads.

    **Raises** `BadRequest` for an unknown target.
    """
    if target == DEFAULT_TARGET:
        return OPSETS[-1]
    import converter

    try:
        return converter.find_target(target).opsets[-1]
    except converter.SpecError as error:
        raise BadRequest(f"{error}.") from error


def read_variants(names: Sequence[str], target: Target = DEFAULT_TARGET) -> tuple[str, ...]:
    """Return the variants to build, in the order of the manifest.

    `names` are the variants that the user requests. `all` stands for every variant that the target
    runs. If `names` is empty, the default variants that the target runs are returned.

    **Raises** `BadRequest` for an unknown variant, or a requested one that the target does not run.
    """
    newest = find_newest_opset(target)
    unsupported = [name for name, min_opset in MIN_OPSETS.items() if min_opset > newest]
    if requested := [name for name in unsupported if name in names]:
        raise BadRequest(
            f"{parameter('variant')} {requested[0]} needs opset {MIN_OPSETS[requested[0]]}, and "
            f"{target} has {newest} at most: leave it out."
        )
    if "all" in names:
        return tuple(name for name in VARIANTS if name not in unsupported)
    for name in names:
        if name not in VARIANTS:
            raise BadRequest(
                f"{parameter('variant')} {name} is not known: choose from {', '.join(VARIANTS)}, "
                "all."
            )
    return tuple(
        name for name in VARIANTS if name in (names or DEFAULT_VARIANTS) and name not in unsupported
    )


def add_tower_variants(names: Sequence[str], config: Config) -> tuple[str, ...]:
    """Return the variants of a folder, in the order of the manifest, for the requested variants
    `names`.

    For a network with two towers, these are the requested variants and the same variants of each
    tower, such as `text_fp16`. For other networks they are `names`.
    """
    if not config.towers:
        return tuple(names)
    return tuple(name for name in PLANNED_FILES if name in names or name.partition("_")[2] in names)


def plan_folder(
    entry: ModelInfo,
    choice: WeightsChoice,
    options: Options,
    variants: Sequence[str],
    folder: Path,
    pictures: PictureFolder | None = None,
) -> Plan:
    """Return the plan of a folder with the files of these variants.

    A file has the opset of its variant, or the newest one that the target supports if that is
    older.

    **Arguments:**

    - `entry`: registry entry of the model.
    - `choice`: the weights to load.
    - `options`: options of the request.
    - `variants`: names of the variants, without those of towers, which are added.
    - `folder`: folder to write to.
    - `pictures`: pictures to calibrate int8 activations with, or None without calibration.

    **Raises** a `ZooError` for an option that does not fit the model.
    """
    signature = vars(read_signature(entry, options))
    towers = entry.config.towers
    parts = nested_networks(entry.config) if towers else {}
    files = []
    for row in (PLANNED_FILES[name] for name in add_tower_variants(variants, entry.config)):
        config = parts[towers[row.tower]] if row.tower else entry.config
        # The file of a text tower has no image size.
        size = signature["size"] if config.pictures is not None else None
        opset = min(row.opset, _newest_opset_for(row, options))
        files.append(replace(row, **{**signature, "size": size}, opset=opset))
    return Plan(entry, options, choice, folder, tuple(files), pictures)


def _newest_opset_for(row: FileSpec, options: Options) -> int:
    """Return the newest opset at which the target runs the file `row`."""
    if options.target == DEFAULT_TARGET:
        return OPSETS[-1]
    import converter

    target = converter.find_target(options.target)
    return newest_with_scales(replace(options, precision=row.precision), target)
