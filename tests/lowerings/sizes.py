"""Compare `converter.lower.size_arithmetic` with Python's integers for random expressions."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from converter.lower.size_arithmetic import Arithmetic, BoundedSize

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: int(x / y),  # ONNX rounds towards zero
    "Mod": lambda x, y: x % y,
    "Max": max,
    "Min": min,
    "Pow": lambda x, y: x**y,
}
"""ONNX operators on integers, as Python functions."""

RULES: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "max": max,
    "min": min,
    "pow": lambda x, y: x**y,
}
NUMBERS = (-3, -2, -1, 0, 1, 2, 3)


@dataclass
class EvaluatingWriter:
    """Writer of operators that computes their values instead; numbers are kept by value name."""

    numbers: dict[str, int] = field(default_factory=dict)

    def value(self, number: int) -> ir.Value:
        name = f"v{len(self.numbers)}"
        self.numbers[name] = number
        return ir.Value(name=name)

    def write(self, name: str, *values: ir.Value) -> ir.Value:
        numbers = [self.numbers[str(v.name)] for v in values]
        return self.value(-numbers[0] if name == "Neg" else OPERATORS[name](*numbers))

    def ints(self, numbers: Sequence[int]) -> ir.Value:
        return self.value(numbers[0])


def complaint(seed: int) -> str:
    """Return what is wrong with the value or bound of a random expression, or an empty text."""
    rng, writer = random.Random(seed), EvaluatingWriter()
    arithmetic = Arithmetic(writer.write, writer.ints, {}, {})

    def leaf() -> tuple[BoundedSize, int, str]:
        if rng.random() < 0.4:
            number = rng.choice(NUMBERS)
            return BoundedSize(number, number), number, str(number)
        number = rng.choice([1, 2, 5])
        return BoundedSize(writer.value(number), 1), number, f"size {number}"

    def tree(depth: int) -> tuple[BoundedSize, int, str]:
        if depth == 0 or rng.random() < 0.1:
            return leaf()
        name = rng.choice([*RULES, "neg"])
        x = tree(depth - 1)
        if name == "neg":
            return arithmetic._apply("neg", [x[0]]), -x[1], f"neg({x[2]})"
        y = tree(depth - 1)
        if name == "pow":
            exponent = rng.choice([1, 2])
            y = BoundedSize(exponent, exponent), exponent, str(exponent)
        if name in ("floordiv", "mod") and y[1] == 0:
            return x
        result = arithmetic._apply(name, [x[0], y[0]])
        return result, RULES[name](x[1], y[1]), f"{name}({x[2]}, {y[2]})"

    size, expected, text = tree(rng.randint(1, 3))
    actual: Any = (
        size.value if isinstance(size.value, int) else writer.numbers[str(size.value.name)]
    )
    if (-actual if size.negated else actual) != expected:
        return f"{text} is {-actual if size.negated else actual}, not {expected}"
    return f"{text}: {actual} is below its bound {size.low}" if actual < size.low else ""
