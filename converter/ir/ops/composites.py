"""Operations that the converter itself writes: what it recognises, and forms that ONNX has."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.ir import formulas, recurrent_formulas
from converter.ir.op import Formula, Op, Rounding
from converter.ir.ops.catalogue import define_op

_ours = partial(define_op, domain="ours")


def _fused(name: str, formula: Formula, operator: str = "", **traits: Any) -> Op:
    """What a recogniser finds, chosen by its own name unless ``structure`` is another."""
    return _ours(name, formula, operator=operator, **{"structure": name, **traits})


_activation = partial(_fused, elementwise=True)

# ------------------------------------------------------------------------------------ recognised

attention = _fused("attention", formulas.attention, "Attention", needs=("softmax",))
rotary = _fused("rotary", formulas.rotary, "RotaryEmbedding")
rotary_heads = _ours("rotary_heads", formulas.rotary_heads, operator="RotaryEmbedding")
layer_norm = _fused("layer_norm", formulas.layer_norm, "LayerNormalization")
rms_norm = _fused("rms_norm", formulas.rms_norm, "RMSNormalization")
group_norm = _fused(
    "group_norm",
    formulas.group_norm,
    "InstanceNormalization",
    otherwise="GroupNormalization",
    needs=("layer_norm",),
)
batch_norm = _fused("batch_norm", formulas.batch_norm, "BatchNormalization")
softmax = _fused("softmax", jax.nn.softmax)
log_softmax = _fused("log_softmax", jax.nn.log_softmax, "LogSoftmax")
gelu = _activation("gelu", jax.nn.gelu, "Gelu")
resize = _fused("resize", formulas.resize, "Resize")
grid_sample = _fused("grid_sample", formulas.grid_sample, "GridSample")
lstm = _fused("lstm", recurrent_formulas.lstm, "LSTM", structure="recurrent")
gru = _fused("gru", recurrent_formulas.gru, "GRU", structure="recurrent")
rnn = _fused("rnn", recurrent_formulas.rnn, "RNN", structure="recurrent")

# What calls of JAX's functions do, before it is decided which operators do it.
image_resize = _ours("image_resize", formulas.image_resize)
sample_at = _ours("sample_at", formulas.sample_at)

# ----------------------------------------------------------------------------------- activations

hard_sigmoid = _activation("hard_sigmoid", formulas.hard_sigmoid, "HardSigmoid")
clip = _activation("clip", lambda x, *, low, high: jnp.minimum(jnp.maximum(x, low), high))
hard_swish = _activation("hard_swish", jax.nn.hard_swish, "HardSwish")
softplus = _activation("softplus", jax.nn.softplus, "Softplus")
mish = _activation("mish", jax.nn.mish, "Mish")
swish = _activation("swish", lambda x, *, alpha=1.0: x * lax.logistic(x * alpha), "Swish")
soft_sign = _activation("soft_sign", jax.nn.soft_sign, "Softsign")
leaky_relu = _activation("leaky_relu", formulas.leaky_relu, "LeakyRelu", otherwise="PRelu")
elu = _activation("elu", formulas.elu, "Elu")
selu = _activation("selu", formulas.selu, "Selu")
celu = _activation("celu", formulas.celu, "Celu")
relu = _ours("relu", lambda x: jnp.maximum(x, 0), elementwise=True, rounding=Rounding.NONE)

# --------------------------------------------------------------------------- forms that ONNX has

_moving = partial(_ours, rounding=Rounding.NONE)

einsum = _ours("einsum", formulas.einsum)
matmul = _ours("matmul", formulas.matmul)
conv = _ours("conv", formulas.conv)
conv_transpose = _ours("conv_transpose", formulas.conv_transpose)
max_pool = _moving("max_pool", partial(formulas.pool, start=-jnp.inf, combine=lax.max))
sum_pool = _ours("sum_pool", partial(formulas.pool, start=0.0, combine=lax.add))
avg_pool = _ours("avg_pool", formulas.avg_pool)
max_pool_scatter = _ours("max_pool_scatter", formulas.max_pool_scatter)
take = _moving("take", lambda x, i, *, axis: jnp.take(x, i, axis, mode="wrap"))
repeat = _moving("repeat", formulas.repeat)
select_index = _moving(
    "select_index",
    lambda x, *, axis, index: lax.index_in_dim(x, index, axis, keepdims=False),
    moves=True,
)
factor = _ours("factor", lambda x, *, least, most: x, formulas.factor)
