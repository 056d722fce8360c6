"""Evaluate a function in JAX with only the parameters of the current step in memory."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from converter.frontend.specs import array_leaves
from converter.jax_versions import bind_primitive


def evaluate_streaming(
    fn: Callable[..., Any], params: Any, values: Mapping[str, Any], *inputs: Any
) -> Any:
    """Return ``fn(params, *inputs)``, reading the value of each parameter only when it is needed.

    A step is either a compiled call of a function under ``jax.jit`` or a single operation. The
    parameters of a step are read just before the step and released after it. If the blocks of a
    network are jitted, the evaluation therefore needs memory for the parameters of only one block.

    Arguments:
        fn: any function that JAX can trace.
        params: a pytree whose array leaves may be ``jax.ShapeDtypeStruct``. Only their shapes and
            dtypes are used.
        values: an array for the path of each leaf (``blocks.0.attn.qkv.weight``). The arrays are
            converted to the dtypes of the leaves. They are read in no particular order and may be
            read more than once.
        inputs: arrays, or pytrees of them.
    """
    leaves, fill = array_leaves(params)
    specs = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for _, leaf in leaves]
    trace = jax.make_jaxpr(lambda arrays, *args: fn(fill(arrays), *args), return_shape=True)
    closed, shape = trace(specs, *inputs)
    jaxpr, count = closed.jaxpr, len(leaves)
    paths = [path or "param" for path, _ in leaves]
    names = dict(zip(jaxpr.invars, paths, strict=False))
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars[count:], jax.tree.leaves(inputs), strict=True))

    def read(atom: Any) -> Any:
        if isinstance(atom, jex.Literal):
            return atom.val
        return jnp.asarray(values[names[atom]], atom.aval.dtype) if atom in names else env[atom]

    last = {var: index for index, eqn in enumerate(jaxpr.eqns) for var in _variables(eqn.invars)}
    last.update(dict.fromkeys(_variables(jaxpr.outvars), len(jaxpr.eqns)))
    for index, eqn in enumerate(jaxpr.eqns):
        results = _run_equation(eqn, [read(atom) for atom in eqn.invars])
        env.update(zip(eqn.outvars, results, strict=True))
        for var in (*_variables(eqn.invars), *eqn.outvars):
            if last.get(var, index) == index:
                env.pop(var, None)
    return jax.tree.unflatten(jax.tree.structure(shape), [read(atom) for atom in jaxpr.outvars])


def _variables(atoms: Any) -> set[Any]:
    """Return the variables among the operands of an equation; literals are omitted."""
    return {atom for atom in atoms if not isinstance(atom, jex.Literal)}


def _run_equation(eqn: Any, arguments: list[Any]) -> list[Any]:
    """Return the results of one equation of a jaxpr for these arguments.

    It waits until they are computed, since JAX would start many equations at once and keep all
    their operands in memory.
    """
    return jax.block_until_ready(bind_primitive(eqn.primitive, arguments, eqn.params))
