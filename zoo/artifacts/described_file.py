"""Run an ONNX file and compare it with the manifest that describes it. Neither is trusted.

Declared inputs and outputs are compared with the manifest, and with the outputs of the network in
the manifest, before the file runs. Results are compared afterwards, because a file may declare
sizes that are open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.artifacts.read import entry_of_manifest
from zoo.artifacts.schema import Manifest, Tensor, Variant
from zoo.common.errors import BadFile, first_line

if TYPE_CHECKING:
    from zoo.common.runtime import NodeArg, Session

Dims = Sequence[int | str | None]
"""Sizes of an array. A size that is not fixed is a name or None."""

Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class DescribedFile:
    """An opened ONNX file, whose inputs and outputs are compared with its manifest.

    The inputs and outputs in the manifest are compared on creation with those that the file
    declares. This **raises** `BadFile` if the file lacks one of them, or declares it with another
    dtype or shape. The file may have more inputs and outputs.

    `variant` is the part of the manifest about this file. If it is None, nothing is compared on
    creation.
    """

    path: Path
    manifest: Manifest
    variant: Variant | None
    session: Session

    def __post_init__(self) -> None:
        """Compare the declared inputs and outputs with the manifest. **Raises** `BadFile`."""
        if self.variant is None:
            return
        for verb, arguments, tensors in (
            ("takes", self.session.get_inputs(), self.variant.inputs),
            ("gives", self.session.get_outputs(), self.variant.outputs),
        ):
            declared = {tensor.name: tensor for tensor in map(declared_tensor, arguments)}
            for tensor in tensors:
                declaration = declared.get(tensor.name)
                if (
                    declaration is None
                    or declaration.dtype != tensor.dtype
                    or not are_shapes_compatible(declaration.shape, tensor.shape)
                ):
                    declarations = "; ".join(map(str, declared.values()))
                    raise self._mismatch_error(
                        f"{verb} {declarations}", f"its manifest says {tensor}"
                    )

    def run(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> Outputs:
        """Run the file and return the outputs of these names, by name.

        `feeds` are the input arrays by name. **Raises** `BadFile` if the file lacks an output, or
        if ONNX Runtime cannot run it.
        """
        from zoo.common.runtime import ERRORS

        declared = [output.name for output in self.session.get_outputs()]
        if missing := [name for name in names if name not in declared]:
            raise BadFile(
                f"{self.path} gives {_shorten(', '.join(declared))} and no {missing[0]}, which is "
                "asked of it: name a file that was exported with that output."
            )
        try:
            return dict(zip(names, self.session.run(list(names), dict(feeds)), strict=True))
        except ERRORS as error:
            raise BadFile(f"{self.path} does not run on this: {first_line(error)}") from error

    def run_network(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> Outputs:
        """Run the file, and check the outputs against the network that the manifest names.

        `names` are the outputs to return, `feeds` the input arrays by name.

        **Raises** `BadFile` if an output of the network has another shape than the network
        computes, or contains infinities or NaN. Outputs that the network does not have may contain
        them. The errors of `run_rows` and `network_output_shapes` are raised too.
        """
        shapes = network_output_shapes(self.manifest)
        outputs = self.run_rows(names, feeds, shapes)
        for name in shapes.keys() & outputs.keys():
            if not np.isfinite(outputs[name]).all():
                raise self._mismatch_error(f"gives {name} with infinite values or NaN", "")
        return outputs

    def run_rows(
        self,
        names: Sequence[str],
        feeds: Mapping[str, NDArray[Any]],
        expected_shapes: Mapping[str, Dims],
    ) -> Outputs:
        """Run the file, and check that the outputs have one row for each row of the feeds.

        **Arguments**

        - `names`: the outputs to return.
        - `feeds`: the input arrays by name.
        - `expected_shapes`: the shapes that outputs must have, by name. Other outputs may have any
          shape.

        **Raises** `BadFile` if the file declares or returns an output with another shape than
        expected. It is also raised if a returned output is not an array of numbers, is empty, or
        has another number of rows than the first array of `feeds`. NaN is allowed.
        """
        for argument in self.session.get_outputs():
            # ONNX Runtime reports an unknown shape as [].
            if argument.name in names and argument.shape:
                self._check_shape(argument.name, argument.shape, expected_shapes)
        outputs = self.run(names, feeds)
        count = len(next(iter(feeds.values())))
        for name, values in outputs.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
                raise self._mismatch_error(
                    f"gives a value for {name} that is not an array of numbers", ""
                )
            self._check_shape(name, values.shape, expected_shapes)
            if values.shape[:1] != (count,) or not values.size:
                shape = list(values.shape)
                raise self._mismatch_error(
                    f"gives {name} {shape}", f"it was given {count} to answer"
                )
        return outputs

    def _check_shape(self, name: str, shape: Dims, expected_shapes: Mapping[str, Dims]) -> None:
        """Check that an output has its expected shape, if one is given for its name.

        **Raises** `BadFile`.
        """
        if name in expected_shapes and not are_shapes_compatible(shape, expected_shapes[name]):
            sizes = ", ".join("?" if side is None else str(side) for side in expected_shapes[name])
            model = self.manifest.model or self.manifest.family or "its network"
            raise self._mismatch_error(
                f"gives {name} {list(shape)}", f"that is [{sizes}] of {model}"
            )

    def manifest_shapes(self) -> Mapping[str, Dims]:
        """Return the shapes of the outputs that the manifest states, by name.

        The result is empty if `variant` is None.
        """
        outputs = self.variant.outputs if self.variant else ()
        return {output.name: output.shape for output in outputs}

    def _mismatch_error(self, difference: str, expectation: str) -> BadFile:
        """Return the error that the file differs from its manifest.

        `difference` completes "it …", such as "gives logits [1, 10]". `expectation` says what the
        manifest states, or is empty.
        """
        contrast = f", and {expectation}" if expectation else ""
        return BadFile(
            f"{self.path} is not what its manifest says: it "
            f"{_shorten(difference)}{_shorten(contrast)}. Keep the manifest beside the file that "
            "it was written with, or export or pull both again."
        )


def network_output_shapes(manifest: Manifest) -> Mapping[str, Dims]:
    """Return the output shapes of the network that a manifest names, by output name.

    An open size is None.

    **Raises** `UnknownModel` if the zoo does not have the model, and `BadFile` if the manifest's
    network is not of the stated family.
    """
    entry = entry_of_manifest(manifest)
    outputs = entry.config.task.describe_outputs(entry.pooler)
    return {name: tuple(_parse_sizes(output.shape)) for name, output in outputs.items()}


def declared_tensor(argument: NodeArg) -> Tensor:
    """Return an input or output of a session as a manifest describes it.

    The dtype is named as in numpy. An open size is its name, or `?` if it has none.
    """
    inner = argument.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(inner, inner)
    shape = tuple("?" if side is None else side for side in argument.shape)
    # The fields are not validated because a damaged file may declare anything.
    return Tensor.model_construct(name=argument.name, dtype=dtype, shape=shape)


def _parse_sizes(shape: str) -> Iterator[int | None]:
    """Yield the sizes in a text such as `[batch_size, height / 14, 384]`. An open size is None."""
    for size in shape.strip("[]").split(", "):
        yield int(size) if size.isdecimal() else None


def are_shapes_compatible(shape: Dims, other: Dims) -> bool:
    """Return whether one array can have both shapes.

    Shapes of different ranks are not compatible. An open size, which is a name or None, is
    compatible with every size. An empty shape is an unknown one and is compatible with every shape.
    """
    if not shape or not other:
        return True
    pairs = zip(shape, other, strict=False)
    equal = (a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    return len(shape) == len(other) and all(equal)


def _shorten(text: str) -> str:
    """Return a text from a file with `?` in place of characters that are not printable.

    A text of more than 400 characters is cut to its first 400, followed by ` …`.
    """
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= 400 else f"{printable[:400]} …"
