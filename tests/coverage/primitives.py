"""The primitives that JAX and Equinox define, and how the converter treats them."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

from jax.extend.core import Primitive

from converter import decompositions
from converter.canonicalize import ELIMINATED_OPS
from converter.decompositions.complex import complex_rules as registry_of_complex
from converter.decompositions.registered import BUILTIN_EXPANSIONS
from converter.frontend import array_forms
from converter.frontend.calls import CALLS, REPLACEMENTS
from converter.frontend.inline import CONTROL_FLOW, DROPPED_PRIMITIVES
from converter.frontend.refused import REFUSAL_REASONS
from converter.ir import ops
from converter.ir.op import Linear
from converter.layout import pooling
from converter.lower import lowerings
from converter.opsets import DEFAULT_TARGET, OPSETS
from converter.pipeline import passes
from converter.targets import find_target

PUBLIC = (
    *("jax.lax", "jax.lax.linalg", "jax.extend.core.primitives", "jax.random"),
    *("jax.interpreters.ad", "jax.interpreters.batching", "jax.interpreters.partial_eval"),
    *("jax.custom_batching", "jax.custom_derivatives"),
)
"""Public modules of JAX with primitives."""

OTHER_MODULES = (
    *("jax.experimental.checkify", "jax.experimental.pallas", "jax.experimental.xla_metadata"),
    *("jax.experimental.custom_partitioning", "jax.experimental.layout", "jax.export"),
    *("jax.nn", "jax.scipy.special", "equinox", "equinox.internal", "equinox.debug"),
)
"""Modules whose import also imports the modules that define the other primitives."""

DEFINING_PACKAGES = ("jax._src", "equinox")

ON_CHIPS = (
    *("jax._src.pallas.mosaic", "jax._src.pallas.triton", "jax._src.pallas.fuser"),
    *("jax._src.pallas.einshape", "jax._src.tpu_custom_call"),
)
"""Modules with primitives of kernels for accelerators. Other tests may have imported them."""


def primitives() -> dict[str, bool]:
    """Return whether each primitive is public, by name."""
    public = {
        name for module in map(importlib.import_module, PUBLIC) for name in _primitive_names(module)
    }
    for module in OTHER_MODULES:
        importlib.import_module(module)
    loaded = [
        m
        for name, m in sorted(sys.modules.items())
        if name.startswith(DEFINING_PACKAGES) and not name.startswith(ON_CHIPS)
    ]
    names = public | {name for module in loaded for name in _primitive_names(module)}
    return {name: name in public for name in sorted(names)}


def _primitive_names(module: ModuleType) -> Iterator[str]:
    """Yield the names of the primitives in a module."""
    return (v.name for v in vars(module).values() if isinstance(v, Primitive))


ELIMINATED_BY_PASSES = frozenset().union(
    *(step.eliminates for step in passes.distinct_passes()),
    pooling.pooling_rules(17, False, find_target(DEFAULT_TARGET)),
)
"""Primitives that passes replace before lowering."""


def ways() -> Mapping[str, str]:
    """Return how the converter treats each primitive. Later rows override earlier ones."""
    linear = {op.name for op in ops.defined_ops() if op.linear is not Linear.NOT}
    complex_expansions = {
        name for name, expansion in BUILTIN_EXPANSIONS.items() if expansion.of_complex
    }
    of_complex = {*registry_of_complex.COMPLEX_RULES, *linear, *complex_expansions}
    return {
        **dict.fromkeys(REFUSAL_REASONS, "refused"),
        **dict.fromkeys(of_complex, "of both parts, by themselves"),
        **dict.fromkeys(DROPPED_PRIMITIVES, "left out, with a warning"),
        **dict.fromkeys(
            ELIMINATED_BY_PASSES
            | {op.name for op in ELIMINATED_OPS}
            | array_forms.IDENTITY_PRIMITIVES
            | array_forms.DRAWING_PRIMITIVES,
            "another form",
        ),
        **dict.fromkeys(BUILTIN_EXPANSIONS, "a function in its place"),
        **dict.fromkeys((*CALLS, *REPLACEMENTS), "inlined"),
        **dict.fromkeys((op.name for op in lowerings.BUILTIN_RULES), "a rule"),
        **dict.fromkeys(CONTROL_FLOW, "a rule"),
    }


def opsets(name: str) -> str:
    """Return the opset from which a primitive has a rule, and the opsets with a newer rule."""
    if decompositions.find_decomposition(name) is not None:
        return "17"
    rules = [lowerings.find_lowering(ops.op_by_name(name), opset) for opset in OPSETS]
    changes = zip(OPSETS, rules, [None, *rules], strict=False)
    return (
        ", ".join(str(opset) for opset, rule, previous in changes if rule is not previous) or "17"
    )
