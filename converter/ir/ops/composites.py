"""Composites: operations that recognisers emit, and operations in the form of ONNX's operators."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.ir import formulas, recurrent_formulas
from converter.ir.activation_row import ActivationRow
from converter.ir.op import Formula, Op, Rounding
from converter.ir.ops import activation_table
from converter.ir.ops.catalogue import define_op

_define_composite = partial(define_op, domain="ours")


def _define_fused(name: str, formula: Formula, operator: str = "", **traits: Any) -> Op:
    """Define an operation that a recogniser emits.

    ``operator`` is its ONNX operator. ``fuse=`` selects the recogniser by ``name``, unless
    ``structure`` is given.
    """
    return _define_composite(name, formula, operator=operator, **{"structure": name, **traits})


ACTIVATIONS: dict[Op, ActivationRow] = {}
"""The rows of the table of activations by their operations."""


def _define_activation(row: ActivationRow, **traits: Any) -> Op:
    """Define the elementwise operation of a row of the table of activations."""
    names = {"operator": row.operator, "alternative_operator": row.alternative_operator}
    op = _define_fused(row.name, row.formula, elementwise=True, **names, **traits)
    ACTIVATIONS[op] = row
    return op


# ------------------------------------------------------------------------------------ recognised

attention = _define_fused("attention", formulas.attention, "Attention", needs=("softmax",))
rotary = _define_fused("rotary", formulas.rotary, "RotaryEmbedding")
rotary_heads = _define_composite("rotary_heads", formulas.rotary_heads, operator="RotaryEmbedding")
layer_norm = _define_fused("layer_norm", formulas.layer_norm, "LayerNormalization")
rms_norm = _define_fused("rms_norm", formulas.rms_norm, "RMSNormalization")
group_norm = _define_fused(
    "group_norm",
    formulas.group_norm,
    "InstanceNormalization",
    alternative_operator="GroupNormalization",
    needs=("layer_norm",),
)
batch_norm = _define_fused("batch_norm", formulas.batch_norm, "BatchNormalization")
softmax = _define_fused("softmax", jax.nn.softmax)
log_softmax = _define_fused("log_softmax", jax.nn.log_softmax, "LogSoftmax")
gelu = _define_activation(activation_table.GELU)
resize = _define_fused("resize", formulas.resize, "Resize")
grid_sample = _define_fused("grid_sample", formulas.grid_sample, "GridSample")
lstm = _define_fused("lstm", recurrent_formulas.lstm, "LSTM", structure="recurrent")
gru = _define_fused("gru", recurrent_formulas.gru, "GRU", structure="recurrent")
rnn = _define_fused("rnn", recurrent_formulas.rnn, "RNN", structure="recurrent")

# Calls of functions of JAX. Later passes choose their ONNX operators.
image_resize = _define_composite("image_resize", formulas.image_resize)
sample_at = _define_composite("sample_at", formulas.sample_at)

# ----------------------------------------------------------------------------------- activations

hard_sigmoid = _define_activation(activation_table.HARD_SIGMOID)
clip = _define_activation(activation_table.CLIP)
hard_swish = _define_activation(activation_table.HARD_SWISH)
softplus = _define_activation(activation_table.SOFTPLUS)
mish = _define_activation(activation_table.MISH)
swish = _define_activation(activation_table.SWISH)
soft_sign = _define_activation(activation_table.SOFT_SIGN)
leaky_relu = _define_activation(activation_table.LEAKY_RELU)
elu = _define_activation(activation_table.ELU)
selu = _define_activation(activation_table.SELU)
celu = _define_activation(activation_table.CELU)
relu = _define_activation(activation_table.RELU, structure="", rounding=Rounding.NONE)

# --------------------------------------------------------------------------- forms that ONNX has

_define_moving = partial(_define_composite, rounding=Rounding.NONE)

einsum = _define_composite("einsum", formulas.einsum)
matmul = _define_composite("matmul", formulas.matmul)
conv = _define_composite("conv", formulas.conv)
conv_transpose = _define_composite("conv_transpose", formulas.conv_transpose)
max_pool = _define_moving("max_pool", partial(formulas.pool, start=-jnp.inf, combine=lax.max))
sum_pool = _define_composite("sum_pool", partial(formulas.pool, start=0.0, combine=lax.add))
avg_pool = _define_composite("avg_pool", formulas.avg_pool)
max_pool_scatter = _define_composite("max_pool_scatter", formulas.max_pool_scatter)
take = _define_moving("take", lambda x, i, *, axis: jnp.take(x, i, axis, mode="wrap"))
repeat = _define_moving("repeat", formulas.repeat)
select_index = _define_moving(
    "select_index",
    lambda x, *, axis, index: lax.index_in_dim(x, index, axis, keepdims=False),
    moves=True,
)
factor = _define_composite("factor", lambda x, *, least, most: x, formulas.factor)
