"""The normalisations, which are Equinox's own, and how a layer is told which one to build."""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx

Norm: TypeAlias = eqx.nn.LayerNorm | eqx.nn.RMSNorm
"""Normalises one vector; `jax.vmap(norm)` does so with every token."""

MakeNorm: TypeAlias = Callable[[int], Norm]
"""Makes a norm over so many channels: `eqx.nn.LayerNorm`, `partial(eqx.nn.RMSNorm, eps=1e-6)`."""
