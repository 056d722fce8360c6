"""Random GELU, softmax and log-softmax, and halves of pairs."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from tests.converter.fuse.drawing import Draw, Pencil, moved

DTYPES = ("float32", "float32", "float16", "bfloat16")


def _product(pencil, factors):
    """The factors multiplied in some order."""
    result, *rest = pencil.order(factors)
    for factor in rest:
        result = result * factor
    return result


def _erf_gate(pencil, x, off):
    form = pencil.pick("form", ("erf", "erf*", "erfc"))
    if form == "erfc":
        return lax.erfc(-x * (math.sqrt(0.5) * off["inner"]))
    inner = (
        x / (math.sqrt(2) / off["inner"]) if form == "erf" else x * math.sqrt(0.5) * off["inner"]
    )
    return 1 * off["one"] + lax.erf(inner)


def _tanh_gate(pencil, x, off):
    cube = pencil.pick("cube", ("x**3", "x*x*x", "x*x**2", "outside"))
    inner, cubic = math.sqrt(2 / math.pi) * off["inner"], 0.044715 * off["cubic"]
    if cube == "outside":
        return 1 * off["one"] + jnp.tanh(inner * x * (1 + cubic * x * x))
    power = {"x**3": lambda: x**3, "x*x*x": lambda: x * x * x, "x*x**2": lambda: x * x**2}[cube]()
    return 1 * off["one"] + jnp.tanh(inner * (x + cubic * power))


def gelu(pencil: Pencil) -> Draw:
    dtype, exact = pencil.pick("dtype", DTYPES), pencil.chance("exact", 0.5)
    misses = ("half", "inner", "one", "other", "shifted", *(() if exact else ("cubic",)))
    miss = pencil.pick("miss", misses) if pencil.chance("near", 0.5) else ""
    off = {name: 1.1 if miss == name else 1.0 for name in ("half", "inner", "one", "cubic")}
    where = pencil.pick("half", ("x", "gate", "all"))
    shape = pencil.shape(int(pencil.rng.integers(1, 4)))

    def fn(x, y):
        gate = (_erf_gate if exact else _tanh_gate)(pencil, x, off)
        half = 0.5 * off["half"]
        x = {"other": y, "shifted": x + 1}.get(miss, x)
        if where == "all":
            return _product(pencil, [x, gate]) * half
        x, gate = (x * half, gate) if where == "x" else (x, half * gate)
        return _product(pencil, [x, gate])

    # erfc of one number more is another function of x, so that "one" is no near miss of it
    found = None if miss == "one" and exact else int(not miss)
    f, inputs = moved(pencil, fn, [pencil.array(shape, dtype), pencil.array(shape, dtype)])
    return Draw(pencil, f, inputs, "gelu", found)


def _softmax_plan(pencil):
    shape = (3, 4, 5, 2)[: int(pencil.rng.integers(1, 5))]
    axis = int(pencil.rng.integers(len(shape)))
    misses = ["base", "sign", "other"] + (["highest", "total", "all"] if len(shape) > 1 else [])
    miss = pencil.pick("miss", misses) if pencil.chance("near", 0.5) else ""
    pencil.notes.append(f"{shape} {axis} {miss}")
    return shape, axis, miss, (axis + 1) % len(shape)


def _shifted(pencil, x, y, axis, miss, beside):
    if miss == "highest":
        return x - x.max(beside, keepdims=True)
    if miss == "all":
        return x - x.max(keepdims=True)
    highest = (y if miss == "other" else x).max(axis)
    highest = jnp.expand_dims(lax.stop_gradient(highest), axis)
    return highest - x if miss == "sign" else x - highest


def softmax(pencil: Pencil) -> Draw:
    shape, axis, miss, beside = _softmax_plan(pencil)

    def fn(x, y):
        shifted = _shifted(pencil, x, y, axis, miss, beside)
        top = jnp.exp2(shifted) if miss == "base" else jnp.exp(shifted)
        along = beside if miss == "total" else axis
        return top / jnp.sum(top, along, keepdims=True)

    dtype = pencil.pick("dtype", DTYPES)
    f, inputs = moved(pencil, fn, [pencil.array(shape, dtype), pencil.array(shape, dtype)])
    # less the maximum of anything is the same function, which is another thing than to see it
    found = None if miss in ("highest", "all", "other") else int(not miss)
    return Draw(pencil, f, inputs, "softmax", found)


def log_softmax(pencil: Pencil) -> Draw:
    shape, axis, miss, beside = _softmax_plan(pencil)

    def fn(x, y):
        shifted = _shifted(pencil, x, y, axis, miss, beside)
        top = jnp.exp2(shifted) if miss == "base" else jnp.exp(shifted)
        along = beside if miss == "total" else axis
        return shifted - jnp.log(jnp.sum(top, along, keepdims=True))

    dtype = pencil.pick("dtype", DTYPES)
    f, inputs = moved(pencil, fn, [pencil.array(shape, dtype), pencil.array(shape, dtype)])
    found = None if miss in ("highest", "all", "other") else int(not miss)
    return Draw(pencil, f, inputs, "log_softmax", found)


def pairs(pencil: Pencil) -> Draw:
    """Any slice of a reshape: halves of pairs are one kind, and none may change a number."""
    shape = [int(d) for d in pencil.rng.choice([1, 2, 2, 3, 4], int(pencil.rng.integers(1, 4)))]
    factors = [p for d in shape for p in ((2, 2) if d == 4 else (d,))]
    target = []
    factors = pencil.order(factors) if pencil.chance("mixed", 0.5) else factors
    for d in (*factors, 1):
        if target and pencil.rng.random() < 0.3:
            target[-1] *= d
        else:
            target.append(d)
    order = [int(i) for i in pencil.rng.permutation(len(target))]
    turned = [target[i] for i in order]
    axis = int(pencil.rng.integers(len(turned)))
    index = int(pencil.rng.integers(turned[axis]))
    pencil.notes.append(f"{shape} {target} {order} {axis} {index}")

    def fn(x):
        return lax.slice_in_dim(x.reshape(target).transpose(order), index, index + 1, 1, axis) * 2

    return Draw(pencil, fn, [pencil.array(shape)], "mul", 1)
