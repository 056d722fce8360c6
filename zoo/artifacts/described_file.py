"""An ONNX file beside the manifest that describes it, which may both be a stranger's.

What a file takes and gives is compared with its manifest, and with what the network of the manifest
gives, before it is run; what it gave is compared once more, because a file may leave sizes open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.artifacts.read import stated_entry
from zoo.artifacts.schema import Manifest, Tensor, Variant
from zoo.common.errors import BadFile, first_line

if TYPE_CHECKING:
    from zoo.common.runtime import NodeArg, Session

Dims = Sequence[int | str | None]
"""Sides of an array; one that is open has a name or None."""

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class DescribedFile:
    """A file that takes and gives what its manifest says. **Raises** `BadFile` where it does not.

    `variant` is the part of the manifest that is about it, where there is one.
    """

    path: Path
    manifest: Manifest
    variant: Variant | None
    session: Session

    def __post_init__(self) -> None:
        if self.variant is None:
            return
        for what, arguments, stated in (
            ("takes", self.session.get_inputs(), self.variant.inputs),
            ("gives", self.session.get_outputs(), self.variant.outputs),
        ):
            declared = {each.name: each for each in map(declared_tensor, arguments)}
            for tensor in stated:
                own = declared.get(tensor.name)
                if (
                    own is None
                    or own.dtype != tensor.dtype
                    or not shapes_fit(own.shape, tensor.shape)
                ):
                    listed = "; ".join(map(str, declared.values()))
                    raise self._misfit(f"{what} {listed}", f"its manifest says {tensor}")

    def run(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> Outputs:
        """Return the outputs of these names. **Raises** `BadFile` where it lacks one, or does not
        run."""
        from zoo.common.runtime import ERRORS

        given = [each.name for each in self.session.get_outputs()]
        if missing := [name for name in names if name not in given]:
            raise BadFile(
                f"{self.path} gives {_short(', '.join(given))} and no {missing[0]}, which is asked "
                "of it: name a file that was exported with that output."
            )
        try:
            return dict(zip(names, self.session.run(list(names), dict(feeds)), strict=True))
        except ERRORS as error:
            raise BadFile(f"{self.path} does not run on this: {first_line(error)}") from error

    def run_network(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> Outputs:
        """Return the outputs of the network of the manifest, one row for each row of what it takes.

        **Raises** `BadFile` where an output is none that this network gives, or where one is
        infinite or no number.
        """
        stated = given_shapes(self.manifest)
        outputs = self.run_rows(names, feeds, stated)
        for name in stated.keys() & outputs.keys():
            if not np.isfinite(outputs[name]).all():
                raise self._misfit(f"gives {name} with infinite numbers, or none", "")
        return outputs

    def run_rows(
        self,
        names: Sequence[str],
        feeds: Mapping[str, NDArray[Any]],
        stated: Mapping[str, Dims],
    ) -> Outputs:
        """Return the outputs, of the `stated` shapes, one row for each row of what it takes.

        **Raises** `BadFile` where the file declares or gives others, or no numbers.
        """
        for argument in self.session.get_outputs():
            # ONNX Runtime has [] for a shape that is not known.
            if argument.name in names and argument.shape:
                self._check_shape(argument.name, argument.shape, stated)
        outputs = self.run(names, feeds)
        count = len(next(iter(feeds.values())))
        for name, values in outputs.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
                raise self._misfit(f"gives something for {name} that is no array of numbers", "")
            self._check_shape(name, values.shape, stated)
            if values.shape[:1] != (count,) or not values.size:
                shape = list(values.shape)
                raise self._misfit(f"gives {name} {shape}", f"it was given {count} to answer")
        return outputs

    def _check_shape(self, name: str, shape: Dims, stated: Mapping[str, Dims]) -> None:
        if name in stated and not shapes_fit(shape, stated[name]):
            wanted = ", ".join("?" if side is None else str(side) for side in stated[name])
            model = self.manifest.model or self.manifest.family or "its network"
            raise self._misfit(f"gives {name} {list(shape)}", f"that is [{wanted}] of {model}")

    def stated_shapes(self) -> Mapping[str, Dims]:
        """Return the shapes of outputs by the manifest."""
        outputs = self.variant.outputs if self.variant else ()
        return {each.name: each.shape for each in outputs}

    def _misfit(self, found: str, wanted: str) -> BadFile:
        where = f", and {wanted}" if wanted else ""
        return BadFile(
            f"{self.path} is not what its manifest says: it {_short(found)}{_short(where)}. Keep "
            "the manifest beside the file that it was written with, or export or pull both again."
        )


def given_shapes(manifest: Manifest) -> Mapping[str, Dims]:
    """Return the shapes of what the network of a manifest gives, None for a side that is open.

    **Raises** `UnknownModel`.
    """
    entry = stated_entry(manifest)
    described = entry.config.task.describe_outputs(entry.pooler)
    return {name: tuple(_sides(given.shape)) for name, given in described.items()}


def declared_tensor(argument: NodeArg) -> Tensor:
    """Return an input or output as ONNX Runtime sees it."""
    inner = argument.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(inner, inner)
    shape = tuple("?" if side is None else side for side in argument.shape)
    # Unchecked: a damaged file may have anything there.
    return Tensor.model_construct(name=argument.name, dtype=dtype, shape=shape)


def _sides(shape: str) -> Iterator[int | None]:
    """Yield the sides of a shape as cards write it: `[batch_size, height / 14, 384]`."""
    for side in shape.strip("[]").split(", "):
        yield int(side) if side.isdecimal() else None


def shapes_fit(shape: Dims, stated: Dims) -> bool:
    """Return whether two shapes may be of one array. An empty shape and a side that is no number
    may be anything."""
    if not shape or not stated:
        return True
    pairs = zip(shape, stated, strict=False)
    same = (a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    return len(shape) == len(stated) and all(same)


def _short(text: str) -> str:
    """Words that may quote a file, short and printable."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= 400 else f"{shown[:400]} …"
