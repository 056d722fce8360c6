"""Programs over named dimensions: what JAX traces with names has to be right at every size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import core, lax

Sizes = dict[str, int]

LENGTHS: tuple[Sizes, ...] = ({"N": 1}, {"N": 2}, {"N": 7})


@dataclass(frozen=True)
class Group:
    """Programs on the same inputs, which are converted together."""

    specs: Sequence[Any]
    sizes: Sequence[Sizes]
    programs: dict[str, Callable[..., Any]]
    constraints: Sequence[str] = ()


def n_of(x: Any) -> Any:
    return x.shape[-1]


LINE = Group(
    [("N",)],
    LENGTHS,
    {
        "tile": lambda x: jnp.tile(x, 3),
        "repeat": lambda x: jnp.repeat(x, 2),
        "reshape": lambda x: jnp.tile(x, 4).reshape(4, -1),
        "ravel an outer product": lambda x: jnp.outer(x, x).ravel(),
        "arange": lambda x: x + jnp.arange(n_of(x)),
        "arange from": lambda x: jnp.arange(2, n_of(x) + 2),
        "pad": lambda x: jnp.pad(x, 2),
        "pad by its length": lambda x: jnp.pad(x, (n_of(x), 1), constant_values=2.0),
        "pad edge": lambda x: jnp.pad(x, (1, 2), mode="edge"),
        "pad of JAX": lambda x: lax.pad(x, 0.5, [(1, n_of(x), 1)]),
        "pad less": lambda x: lax.pad(x, 0.5, [(2, -1, 0)]),
        "slice": lambda x: x[1:],
        "slice last": lambda x: x[-1:],
        "slice in steps from 1": lambda x: x[1::3],
        "slice turned": lambda x: x[::-1],
        "slice half": lambda x: x[: n_of(x) // 2],
        "dynamic_slice": lambda x: lax.dynamic_slice(x, (n_of(x) // 2,), (1,)),
        "dynamic_slice in dim": lambda x: lax.dynamic_slice_in_dim(
            jnp.tile(x, 2), jnp.argmax(x), n_of(x)
        ),
        "dynamic_update_slice": lambda x: lax.dynamic_update_slice(
            jnp.tile(x, 3), -x, (n_of(x) // 2,)
        ),
        "concatenate": lambda x: jnp.concatenate([x, x[:1], -x]),
        "split": lambda x: jnp.split(jnp.tile(x, 2), 2),
        "split at half": lambda x: jnp.split(jnp.tile(x, 2), [n_of(x)]),
        "interleave": lambda x: jnp.stack([x, -x], -1).reshape(-1),
        "cumsum": jnp.cumsum,
        "cummin reversed": lambda x: lax.cummin(x, reverse=True),
        "cumlogsumexp": lambda x: lax.cumlogsumexp(x),
        "sort down": lambda x: jnp.sort(x, descending=True),
        "sort pairs": lambda x: lax.sort((x, jnp.arange(n_of(x))), num_keys=1),
        "top_k 1": lambda x: lax.top_k(x, 1),
        "top_k whole": lambda x: lax.top_k(x, n_of(x)),
        "argmax": jnp.argmax,
        "one_hot": lambda x: jax.nn.one_hot(jnp.argmax(x), n_of(x)),
        "eye of two sizes": lambda x: jnp.eye(n_of(x), n_of(x) + 1, 1),
        "diag": jnp.diag,
        "triu 1": lambda x: jnp.triu(jnp.outer(x, x), 1),
        "where": lambda x: jnp.where(jnp.arange(n_of(x)) < n_of(x) // 2, x, 0.0),
        "zeros and ones": lambda x: jnp.zeros((n_of(x), 2)) + jnp.ones((n_of(x), 1)),
        "full_like": lambda x: jnp.full_like(x, n_of(x)),
        "mean": jnp.mean,
        "std of a sample": lambda x: jnp.std(jnp.tile(x, 2), ddof=1),
        "quantile": lambda x: jnp.quantile(x, 0.3),
        "softmax": jax.nn.softmax,
        "logsumexp": jax.nn.logsumexp,
        "norm": jnp.linalg.norm,
        "size as a number": lambda x: x * n_of(x),
        "square root of a size": lambda x: x / jnp.sqrt(n_of(x)),
        "power of a size": lambda x: x * (n_of(x) ** 2 % 7),
        "larger of sizes": lambda x: jnp.zeros((core.max_dim(n_of(x), 3), 1)),
        "roll back by half": lambda x: jnp.roll(x, -(n_of(x) // 2)),
        "roll by a value": lambda x: jnp.roll(x, jnp.argmax(x)),
        "mgrid by hand": lambda x: jnp.stack(
            jnp.meshgrid(jnp.arange(n_of(x)), jnp.arange(3), indexing="ij")
        ),
        "take": lambda x: jnp.take(x, jnp.arange(n_of(x) - 1, -1, -1)),
        "take clipped": lambda x: jnp.take(x, jnp.arange(4), mode="clip"),
        "take filled": lambda x: jnp.take(x, jnp.arange(4), mode="fill"),
        "index by positions": lambda x: x[jnp.argsort(x)],
        "index by computed sizes": lambda x: x[(jnp.arange(5) * n_of(x)) // 5],
        "set last": lambda x: x.at[-1].set(9.0),
        "add at every": lambda x: jnp.zeros(n_of(x)).at[jnp.arange(n_of(x)) // 2].add(x),
        "max at": lambda x: x.at[jnp.arange(n_of(x)) // 3].max(0.2),
        "set a slice": lambda x: x.at[::2].set(0.0),
        "set dropping": lambda x: x.at[jnp.arange(4)].set(1.0, mode="drop"),
        "segment_sum to its length": lambda x: jax.ops.segment_sum(
            x, jnp.arange(n_of(x)) // 2, n_of(x)
        ),
        "digitize": lambda x: jnp.digitize(x, jnp.array([-0.5, 0.5])),
        "dot": lambda x: jnp.dot(x, x),
        "scan": lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x),
        "scan with positions": lambda x: lax.scan(
            lambda c, v: (c + v[0], v[1] * 2), 0.0, (x, jnp.arange(n_of(x)))
        )[1],
        "scan reversed": lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x, reverse=True),
        "fori_loop": lambda x: lax.fori_loop(0, n_of(x), lambda i, c: c * 0.5 + x[i], 0.0),
        "while": lambda x: lax.while_loop(
            lambda s: s[0] < n_of(x), lambda s: (s[0] + 1, s[1].at[s[0]].multiply(2.0)), (0, x)
        ),
        "cond": lambda x: lax.cond(jnp.asarray(n_of(x)) > 3, lambda v: v + 1, lambda v: v - 1, x),
        "diff": lambda x: jnp.diff(x),
        "cov": lambda x: jnp.cov(jnp.stack([jnp.tile(x, 2), jnp.tile(-x, 2)])),
        "broadcast a scalar": lambda x: jnp.broadcast_to(x.sum(), (n_of(x), n_of(x))),
        "vmap": lambda x: jax.vmap(lambda v: v * x)(x),
        "grad": jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2) / n_of(x)),
        "grad of a softmax": jax.grad(lambda x: jax.nn.softmax(x)[0]),
        "jacobian": jax.jacobian(lambda x: jnp.tanh(x)[:1]),
        "all and any": lambda x: (jnp.all(x > -9), jnp.any(x > 9)),
        "unravel_index": lambda x: jnp.unravel_index(jnp.arange(n_of(x)), (n_of(x), 2)),
        "clip by size": lambda x: jnp.clip(jnp.arange(9), 0, n_of(x) - 1),
        "iota": lambda x: lax.broadcasted_iota(jnp.int32, (2, n_of(x)), 1),
        "reduce by hand": lambda x: lax.reduce(x, -9.0, lax.max, (0,)),
        "window of 2": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), ((0, 1),)),
        "window same": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (2,), "SAME"),
    },
)
