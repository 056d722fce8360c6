"""The variants that a folder may hold, and the plan of a folder."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from converter.opsets import DEFAULT_TARGET, FUSED, OPSETS
from weights.parameters import parameter
from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import TOWER_NAMES, nested_networks
from zoo.artifacts.choices import Target
from zoo.checkpoints.source import Choice
from zoo.common.errors import BadRequest
from zoo.common.options import SEVERAL, Option
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Options, Plan, newest_with_scales, read_signature
from zoo.images.picture_folder import PictureFolder


def _variants() -> Iterator[FileSpec]:
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
            yield replace(row, path="onnx/model_fused.onnx", opset=FUSED, variant="fused")


VARIANTS = {row.variant: row for row in _variants()}

LEAST_OPSETS = {name: PRECISIONS[row.precision].least_opset for name, row in VARIANTS.items()}
LEAST_OPSETS["fused"] = FUSED
"""The oldest opset at which there is each variant."""

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
"""The same of each part of a model of two: transformers.js asks for files of these names."""

PLANNED_FILES = VARIANTS | TOWER_FILES
"""All that may be in a folder, in its order."""

USUAL_VARIANTS = ("fp32", "fused", "fp16", "int8")
"""Those that are built unless others are asked for: no CPU runtime computes in bfloat16, and four
bits are for who counts bytes."""


def variant_names(default: str) -> Option:
    """Files of a folder, as an option."""
    *names, last = VARIANTS
    return Option(
        "NAME",
        f"The variants {', '.join(names)} or {last}, or `all` of them. {SEVERAL}",
        default=default,
        several=True,
    )


def newest_opset(target: Target) -> int:
    """The newest opset that a target loads. **Raises** `BadRequest` if there is no such target."""
    if target == DEFAULT_TARGET:
        return OPSETS[-1]
    import converter

    try:
        return converter.find_target(target).opsets[-1]
    except converter.SpecError as error:
        raise BadRequest(f"{error}.") from error


def read_variants(names: Sequence[str], target: Target = DEFAULT_TARGET) -> tuple[str, ...]:
    """The variants to build, in their own order; `all` is every one that the target runs.

    **Raises** `BadRequest`.
    """
    newest = newest_opset(target)
    late = [name for name, least in LEAST_OPSETS.items() if least > newest]
    if asked := [name for name in late if name in names]:
        raise BadRequest(
            f"{parameter('variant')} {asked[0]} needs opset {LEAST_OPSETS[asked[0]]}, and {target} "
            f"has {newest} at most: leave it out."
        )
    if "all" in names:
        return tuple(name for name in VARIANTS if name not in late)
    for name in names:
        if name not in VARIANTS:
            raise BadRequest(
                f"{parameter('variant')} {name} is not known: choose from {', '.join(VARIANTS)}, "
                "all."
            )
    return tuple(
        name for name in VARIANTS if name in (names or USUAL_VARIANTS) and name not in late
    )


def with_towers(names: Sequence[str], config: Config) -> tuple[str, ...]:
    """The variants of a folder, with those of the towers of a network that has two."""
    if not config.towers:
        return tuple(names)
    return tuple(name for name in PLANNED_FILES if name in names or name.partition("_")[2] in names)


def plan_folder(
    entry: ModelInfo,
    choice: Choice,
    options: Options,
    variants: Sequence[str],
    folder: Path,
    pictures: PictureFolder | None = None,
) -> Plan:
    """Return the plan of a folder with these variants, at opsets that the target has.

    **Raises** a `ZooError` for an option that makes no sense for the model.
    """
    signature = vars(read_signature(entry, options))
    towers = entry.config.towers
    parts = nested_networks(entry.config) if towers else {}
    files = []
    for row in (PLANNED_FILES[name] for name in with_towers(variants, entry.config)):
        config = parts[towers[row.tower]] if row.tower else entry.config
        # Texts have no size.
        size = signature["size"] if config.pictures is not None else None
        opset = min(row.opset, _newest(row, options))
        files.append(replace(row, **{**signature, "size": size}, opset=opset))
    return Plan(entry, options, choice, folder, tuple(files), pictures)


def _newest(row: FileSpec, options: Options) -> int:
    if options.target == DEFAULT_TARGET:
        return OPSETS[-1]
    import converter

    target = converter.find_target(options.target)
    return newest_with_scales(replace(options, precision=row.precision), target)
