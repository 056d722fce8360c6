"""Emit nodes that compute named sizes from input shapes, as int64 [1]. Each expression is emitted
once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import onnx_ir as ir

from converter.errors import SpecError
from converter.ir import dims
from converter.ir.dims import Dim, Shape
from converter.ir.named_sizes import Origin


@dataclass(frozen=True)
class BoundedSize:
    """A size: a number, or an ONNX value with a lower bound.

    ``low`` is the lower bound of ``value``; for a number it is the number itself. With ``negated``,
    the size is the negative of ``value``.
    """

    value: ir.Value | int
    low: float
    negated: bool = False

    @property
    def is_nonnegative(self) -> bool:
        """True if the size is known to be at least zero."""
        return not self.negated and self.low >= 0

    @property
    def is_positive(self) -> bool:
        """True if the size is known to be above zero. ``low`` bounds the value before negation."""
        return not self.negated and self.low > 0


@dataclass(frozen=True)
class Arithmetic:
    """Emitter of the values of dimensions. Each expression is emitted once.

    **Arguments**

    - `emit`: emits an operator into the main graph.
    - `ints`: returns a constant vector.
    - `emitted`: values that are already emitted, by the text of the dimension or expression; new
      ones are added.
    - `origins`: for each named dimension, the input and the axis from which it is computed.
    """

    emit: Callable[..., ir.Value]
    ints: Callable[[Sequence[int]], ir.Value]
    emitted: dict[str, ir.Value]
    origins: Mapping[str, tuple[ir.Value, Origin]]

    def dim(self, dim: Dim) -> ir.Value:
        """Return a dimension as int64 [1]: a constant, or an expression of input shapes."""
        if dims.is_static(dim):
            return self.ints([dim])
        key = str(dim)
        if key not in self.emitted:
            self.emitted[key] = self._to_value(
                dims.fold_dims(dim, self._to_bounded_size, self._apply)
            )
        return self.emitted[key]

    def shape(self, shape: Shape) -> ir.Value:
        """Return several dimensions as one vector, int64 [rank]. Adjacent numbers share a
        constant."""
        key = dims.shape_text(shape) + ","
        if key not in self.emitted:
            parts: list[ir.Value] = []
            for fixed, run in groupby(shape, dims.is_static):
                dimensions = list(run)
                parts += [self.ints(dimensions)] if fixed else [self.dim(dim) for dim in dimensions]
            joined = self.emit("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
            self.emitted[key] = joined
        return self.emitted[key]

    def _to_bounded_size(self, leaf: str | int) -> BoundedSize:
        """Return a number or a name as a size. A named dimension is at least 1."""
        return (
            BoundedSize(leaf, leaf)
            if isinstance(leaf, int)
            else BoundedSize(self._named_size(leaf), 1)
        )

    def _named_size(self, name: str) -> ir.Value:
        """Return the size of a named dimension, computed from the shape of an input.

        **Raises** `SpecError` if no input determines it.
        """
        if name not in self.emitted:
            if name not in self.origins:
                raise SpecError(
                    f"dimension '{name}' cannot be computed from the shape of any input; give one "
                    f"input an axis that is '{name}', a multiple of it, or linear in it"
                )
            value, origin = self.origins[name]
            size = self.emit("Shape", value, start=origin.axis, end=origin.axis + 1)
            if not dims.is_same_dim(origin.summand, 0):
                size = self.emit("Sub", size, self.dim(origin.summand))
            if origin.factor != 1:
                size = self.emit("Div", size, self.ints([origin.factor]))
            self.emitted[name] = size
        return self.emitted[name]

    def _apply(self, op: str, operands: list[BoundedSize]) -> BoundedSize:
        """Emit an operation on sizes, or compute it if all operands are numbers. ``op`` is as in
        ``fold_dims``."""
        numbers = [size.value for size in operands]
        if all(isinstance(number, int) for number in numbers):
            number = dims.INTEGER[op](*numbers)
            return BoundedSize(number, number)
        return _negate(operands[0]) if op == "neg" else SIZE_RULES[op](self, *operands)

    def _op(self, name: str, *operands: BoundedSize) -> ir.Value:
        """Emit an operator on sizes, once for the same operands."""
        values = [self._to_value(size) for size in operands]
        key = f"{name}({', '.join(str(v.name) for v in values)})"
        if key not in self.emitted:
            self.emitted[key] = self.emit(name, *values)
        return self.emitted[key]

    def _to_value(self, size: BoundedSize) -> ir.Value:
        """Return a size as an ONNX value; a negated one gets a ``Neg``."""
        if isinstance(size.value, int):
            return self.ints([size.value])
        return self._op("Neg", _negate(size)) if size.negated else size.value

    def _add(self, x: BoundedSize, y: BoundedSize) -> BoundedSize:
        """Return the sum of two sizes. A negated operand becomes a ``Sub``."""
        if x.negated and y.negated:
            return _negate(self._add(_negate(x), _negate(y)))
        if x.negated:
            x, y = y, x
        if y.value == 0 or x.value == 0:
            return x if y.value == 0 else y
        if y.negated:
            return BoundedSize(self._op("Sub", x, _negate(y)), -math.inf)
        subtracts = isinstance(y.value, int) and y.value < 0
        total = self._op("Sub", x, _negate(y)) if subtracts else self._op("Add", x, y)
        return BoundedSize(total, x.low + y.low)

    def _multiply(self, x: BoundedSize, y: BoundedSize) -> BoundedSize:
        """Return the product of two sizes. If one operand is negated, the product is negated
        instead."""
        if x.negated != y.negated or any(s.value == -1 for s in (x, y)):
            negative = x if x.negated or x.value == -1 else y
            other = y if negative is x else x
            return _negate(self._multiply(_negate(negative), other))
        x, y = replace(x, negated=False), replace(y, negated=False)
        if x.value == 1 or y.value == 1:
            return y if x.value == 1 else x
        low = x.low * y.low if x.low >= 0 and y.low >= 0 else -math.inf
        return BoundedSize(self._op("Mul", x, y), low)

    def _divide(self, x: BoundedSize, y: BoundedSize) -> BoundedSize:
        """Return x / y, rounded down.

        ONNX's ``Div`` rounds towards zero. It is used directly if no operand can be negative;
        otherwise ``x - x mod y`` is divided.
        """
        if isinstance(y.value, int) and y.value < 0:
            x, y = _negate(x), _negate(y)
        if y.value == 1:
            return x
        if x.negated and x.low >= 0 and isinstance(y.value, int):
            rounded_up = self._add(_negate(x), BoundedSize(y.value - 1, y.value - 1))
            return _negate(self._divide(rounded_up, y))
        if x.is_nonnegative and y.is_positive:
            return BoundedSize(self._op("Div", x, y), 0)
        remainder = BoundedSize(self._op("Mod", x, y), -math.inf)
        return BoundedSize(
            self._op("Div", BoundedSize(self._op("Sub", x, remainder), -math.inf), y), -math.inf
        )

    def _extreme(self, name: str, x: BoundedSize, y: BoundedSize) -> BoundedSize:
        """Return the maximum or minimum of two sizes. ``name`` is "Max" or "Min".

        Nothing is emitted if the bounds decide.
        """
        for size, other in ((x, y), (y, x)):
            if isinstance(other.value, int) and not size.negated and size.low >= other.value:
                return size if name == "Max" else other
        below = -math.inf if x.negated or y.negated else min(x.low, y.low)
        return BoundedSize(self._op(name, x, y), below)


SIZE_RULES: dict[str, Callable[[Arithmetic, BoundedSize, BoundedSize], BoundedSize]] = {
    "add": Arithmetic._add,
    "sub": lambda a, x, y: a._add(x, _negate(y)),
    "mul": Arithmetic._multiply,
    "pow": lambda a, x, y: BoundedSize(
        a._op("Pow", x, y), x.low if x.is_nonnegative else -math.inf
    ),
    "floordiv": Arithmetic._divide,
    "mod": lambda a, x, y: BoundedSize(a._op("Mod", x, y), 0 if y.is_positive else -math.inf),
    "max": lambda a, x, y: a._extreme("Max", x, y),
    "min": lambda a, x, y: a._extreme("Min", x, y),
}


def _negate(size: BoundedSize) -> BoundedSize:
    """Return the negative of a size. Nothing is emitted."""
    if isinstance(size.value, int):
        return BoundedSize(-size.value, -size.value)
    return replace(size, negated=not size.negated)
