"""What is registered from outside, and for how long."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from jax.extend.core import Primitive

from converter.decompositions.registered import Applies, DecompositionFunction, always, registering
from converter.frontend.calls import is_users
from converter.fuse import user_recognisers as recognisers
from converter.ir import ops, outside
from converter.ir.op import Op
from converter.lower import lowerings as rules
from converter.lower.lowerings import Lowering
from converter.opsets import OLDEST

OperationName: TypeAlias = Primitive | str


def rule(
    *operations: OperationName, since: int = OLDEST, ignores: Iterable[str] = ()
) -> Callable[[Lowering], Lowering]:
    """Register a rule for one or more operations.

    It gets the builder, the ONNX values of the operands, and the parameters by keyword:

        @converter.rule("my_primitive")
        def _(b, x, *, alpha):
            return b.op("Elu", x, alpha=alpha)

    ``b.op`` writes a node, ``b.const`` an initializer, ``b.shape`` a shape, also where it is
    dynamic; ``b.out`` and ``b.operand()`` have shapes and dtypes.

    Args:
        operations: primitives, or names of them or of what a recogniser found. Where a program has
            a primitive of its own of that name, no other is meant.
        since: the opset that brought what it writes; of several rules the newest is taken.
        ignores: parameters that it knowingly does not read. A node with any other is refused.
    """
    add = rules.add_from_outside
    return rules.lowers(*map(_find_operation, operations), since=since, ignores=ignores, add=add)


def expansion(
    *primitives: OperationName, ignores: Iterable[str] = (), only: Applies = always
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register a JAX function that is traced in the place of one or more primitives.

    It gets the operands by position and the primitive's parameters by keyword:

        @converter.expansion("my_primitive")
        def _(x, *, alpha):
            return jax.numpy.where(x > 0, x, alpha * x)

    Args:
        primitives: as in ``rule``.
        ignores: parameters that it knowingly does not read. A primitive with any other stays.
        only: is asked with the types of the operands and the parameters whether it applies.
    """
    operations = [*map(_find_operation, primitives)]
    return registering(outside.expansions.add, operations, ignores, applies=only)


@contextmanager
def extensions() -> Iterator[None]:
    """Rules, expansions and recognisers that are registered inside are forgotten at the end.

    with converter.extensions():
        converter.rule("my_primitive")(lambda b, x: b.op("Softsign", x))
        export = converter.to_onnx(fn, specs)
    """
    with outside.rules_of.restored(), outside.expansions.restored(), recognisers.restored():
        yield


def _find_operation(op: OperationName) -> Op | str:
    if isinstance(op, str):
        return op
    return ops.of_user(op) if is_users(op) else ops.named(op.name)
