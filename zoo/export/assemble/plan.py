"""What a folder is built from, where, and which files are to be in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from converter.opsets import DEFAULT_TARGET, FUSED, OPSETS
from weights.parameters import parameter
from zoo.architectures.architecture import Config
from zoo.architectures.kinds import TOWER_NAMES
from zoo.artifacts.choices import Scales, Target
from zoo.checkpoints.source import Choice
from zoo.common.errors import BadRequest
from zoo.common.options import SEVERAL, Option
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Signature, newest_quantized
from zoo.images.picture_folder import PictureFolder


@dataclass(frozen=True)
class FolderPlan:
    """One folder to build: plain data that a worker elsewhere can be sent.

    With `force` earlier files are replaced; with `keep_inexact` files of low precision are kept
    that are not as near to float32 as is asked of them. Activations of int8 have these `scales`, or
    are ranged on `pictures`. The files are for the runtime `target`.
    """

    model: str
    folder: Path
    weights: Choice
    signature: Signature
    variants: tuple[str, ...]
    force: bool = False
    keep_inexact: bool = False
    offline: bool = False
    pictures: PictureFolder | None = None
    target: Target = DEFAULT_TARGET
    scales: Scales = "tensor"

    def specs(self, files: Mapping[str, FileSpec]) -> dict[str, FileSpec]:
        """Files that are to be made, at opsets that the target has."""
        return {
            name: replace(spec, opset=min(spec.opset, self._newest(spec)))
            for name, spec in files.items()
            if name in self.variants
        }

    def _newest(self, spec: FileSpec) -> int:
        has_scales = spec.precision == "int8" and (self.scales == "row" or self.pictures)
        if has_scales and self.target != DEFAULT_TARGET:
            import converter

            return newest_quantized(converter.find_target(self.target))
        return newest_opset(self.target)


def _variants() -> Iterator[tuple[str, FileSpec]]:
    for precision, traits in PRECISIONS.items():
        yield precision, FileSpec(f"onnx/{traits.file}.onnx", traits.opset, precision)
        if precision == "fp32":
            yield "fused", FileSpec("onnx/model_fused.onnx", FUSED)


VARIANTS = dict(_variants())

TOWER_FILES = {
    f"{tower}_{name}": replace(spec, path=spec.path.replace("/model", f"/{tower}_model"))
    for tower in TOWER_NAMES
    for name, spec in VARIANTS.items()
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
    new = [name for name in ("fused", "bf16") if VARIANTS[name].opset > newest]
    if late := [name for name in new if name in names]:
        raise BadRequest(
            f"{parameter('variant')} {late[0]} needs opset {VARIANTS[late[0]].opset}, and {target} "
            f"has {newest} at most: leave it out."
        )
    if "all" in names:
        return tuple(name for name in VARIANTS if name not in new)
    for name in names:
        if name not in VARIANTS:
            raise BadRequest(
                f"{parameter('variant')} {name} is not known: choose from {', '.join(VARIANTS)}, "
                "all."
            )
    return tuple(name for name in VARIANTS if name in (names or USUAL_VARIANTS) and name not in new)


def with_towers(names: tuple[str, ...], config: Config) -> tuple[str, ...]:
    """The variants of a folder, with those of the towers of a network that has two."""
    if not config.towers:
        return names
    return tuple(name for name in PLANNED_FILES if name in names or name.partition("_")[2] in names)
