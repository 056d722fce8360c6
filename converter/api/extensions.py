"""Functions that register users' rules, expansions and recognisers."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from jax.extend.core import Primitive

from converter.decompositions.registered import Applies, DecompositionFunction, always, register_as
from converter.frontend.calls import is_user_primitive
from converter.fuse import user_recognisers as recognisers
from converter.ir import ops, registry
from converter.ir.op import Op
from converter.lower import lowerings as rules
from converter.lower.lowerings import Lowering
from converter.opsets import OLDEST_OPSET

OperationName: TypeAlias = Primitive | str


def rule(
    *operations: OperationName, since: int = OLDEST_OPSET, ignores: Iterable[str] = ()
) -> Callable[[Lowering], Lowering]:
    """Register a lowering rule for one or more operations.

    The result is a decorator, which returns the rule unchanged. The rule gets the builder, the ONNX
    values of the operands, and the parameters of the node as keywords. It returns the ONNX value of
    each output:

        @converter.rule("my_primitive")
        def _(b, x, *, alpha):
            return b.op("Elu", x, alpha=alpha)

    ``b.op`` emits a node, ``b.const`` an initializer, and ``b.shape`` a shape, which may be
    dynamic. ``b.out`` and ``b.operand()`` have shapes and dtypes.

    Arguments:
        operations: primitives, names of primitives, or names of fused structures. If a program has
            its own primitive of a name, the rule applies to that one only.
        since: the first opset that has the operators of the rule. If several rules can be applied,
            the one with the highest ``since`` is used. Users' rules come before built-in ones.
        ignores: parameters that the rule ignores on purpose. A node with a parameter that is
            neither a keyword of the rule nor ignored is refused.

    Raises:
        ConverterError: the rule has ``**kwargs``, which would accept unknown parameters.
    """
    add = rules.add_user_rule
    return rules.lowers(*map(_find_operation, operations), since=since, ignores=ignores, add=add)


def expansion(
    *primitives: OperationName, ignores: Iterable[str] = (), only: Applies = always
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register a JAX function that is traced in place of one or more primitives.

    The result is a decorator, which returns the function unchanged. The function gets the operands
    as positional arguments. Its keyword-only arguments are the parameters of the primitive:

        @converter.expansion("my_primitive")
        def _(x, *, alpha):
            return jax.numpy.where(x > 0, x, alpha * x)

    Arguments:
        primitives: primitives or names of primitives.
        ignores: parameters that the function ignores on purpose. A primitive with a parameter that
            is neither a keyword-only argument nor ignored is not expanded.
        only: returns True if the function applies to operands of these types with these parameters.
            By default it always applies.
    """
    operations = [*map(_find_operation, primitives)]
    return register_as(registry.expansions.add, operations, ignores, applies=only)


@contextmanager
def extensions() -> Iterator[None]:
    """Limit the registration of rules, expansions and recognisers to a ``with`` block.

    Those registered inside the block are removed when it ends. Earlier ones are restored.

        with converter.extensions():
            converter.rule("my_primitive")(lambda b, x: b.op("Softsign", x))
            export = converter.to_onnx(fn, specs)
    """
    with (
        registry.registered_rules.restoring(),
        registry.expansions.restoring(),
        recognisers.restoring_registrations(),
    ):
        yield


def _find_operation(op: OperationName) -> Op | str:
    """Return the operation of a primitive; a name is returned unchanged.

    A primitive that belongs to neither JAX nor Equinox is identified by the object itself, since
    users' primitives may share a name.
    """
    if isinstance(op, str):
        return op
    return ops.user_op(op) if is_user_primitive(op) else ops.op_by_name(op.name)
