"""Operations that the converter itself writes: what it recognises, and forms that ONNX has."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from converter.graph import formulas, norms, recurrent, windows
from converter.graph.op import Rounding
from converter.graph.ops.table import known

_ours = partial(known, domain="ours")
_activation = partial(_ours, elementwise=True)

# ------------------------------------------------------------------------------------ recognised

attention = _ours(
    "attention",
    formula=formulas.attention,
    operator="Attention",
    structure="attention",
    needs=("softmax",),
)
rotary = _ours("rotary", formula=formulas.rotary, operator="RotaryEmbedding", structure="rotary")
rotary_heads = _ours("rotary_heads", formula=formulas.rotary_heads, operator="RotaryEmbedding")
layer_norm = _ours(
    "layer_norm",
    formula=norms.layer_norm,
    operator="LayerNormalization",
    structure="layer_norm",
)
rms_norm = _ours(
    "rms_norm", formula=norms.rms_norm, operator="RMSNormalization", structure="rms_norm"
)
group_norm = _ours(
    "group_norm",
    formula=norms.group_norm,
    operator="InstanceNormalization",
    otherwise="GroupNormalization",
    structure="group_norm",
    needs=("layer_norm",),
)
batch_norm = _ours(
    "batch_norm",
    formula=norms.batch_norm,
    operator="BatchNormalization",
    structure="batch_norm",
)
softmax = _ours("softmax", formula=formulas.softmax, structure="softmax")
log_softmax = _ours(
    "log_softmax", formula=formulas.log_softmax, operator="LogSoftmax", structure="log_softmax"
)
gelu = _activation("gelu", formula=formulas.gelu, operator="Gelu", structure="gelu")
resize = _ours("resize", formula=formulas.resize, operator="Resize", structure="resize")
lstm = _ours("lstm", formula=recurrent.lstm, operator="LSTM", structure="recurrent")
gru = _ours("gru", formula=recurrent.gru, operator="GRU", structure="recurrent")
rnn = _ours("rnn", formula=recurrent.rnn, operator="RNN", structure="recurrent")

# ----------------------------------------------------------------------------------- activations

hard_sigmoid = _activation(
    "hard_sigmoid",
    formula=lambda x, *, alpha=1 / 6, beta=0.5: jnp.clip(x * alpha + beta, 0, 1),
    operator="HardSigmoid",
    structure="hard_sigmoid",
)
clip = _activation(
    "clip",
    formula=lambda x, *, low, high: jnp.minimum(jnp.maximum(x, low), high),
    structure="clip",
)
hard_swish = _activation(
    "hard_swish", formula=jax.nn.hard_swish, operator="HardSwish", structure="hard_swish"
)
softplus = _activation(
    "softplus", formula=jax.nn.softplus, operator="Softplus", structure="softplus"
)
mish = _activation("mish", formula=jax.nn.mish, operator="Mish", structure="mish")
swish = _activation(
    "swish",
    formula=lambda x, *, alpha=1.0: x * lax.logistic(x * alpha),
    operator="Swish",
    structure="swish",
)
soft_sign = _activation(
    "soft_sign", formula=jax.nn.soft_sign, operator="Softsign", structure="soft_sign"
)
leaky_relu = _activation(
    "leaky_relu",
    formula=formulas.leaky_relu,
    operator="LeakyRelu",
    otherwise="PRelu",
    structure="leaky_relu",
)
elu = _activation("elu", formula=formulas.elu, operator="Elu", structure="elu")
selu = _activation("selu", formula=formulas.selu, operator="Selu", structure="selu")
celu = _activation("celu", formula=formulas.celu, operator="Celu", structure="celu")
relu = _activation("relu", formula=lambda x: jnp.maximum(x, 0), rounding=Rounding.NONE)

# --------------------------------------------------------------------------- forms that ONNX has

einsum = _ours("einsum", formula=formulas.einsum)
matmul = _ours("matmul", formula=formulas.matmul)
conv = _ours("conv", formula=windows.conv)
conv_transpose = _ours("conv_transpose", formula=windows.conv_transpose)
max_pool = _ours(
    "max_pool",
    formula=partial(windows.pool, start=-jnp.inf, combine=lax.max),
    rounding=Rounding.NONE,
)
sum_pool = _ours("sum_pool", formula=partial(windows.pool, start=0.0, combine=lax.add))
avg_pool = _ours("avg_pool", formula=windows.avg_pool)
max_pool_scatter = _ours("max_pool_scatter", formula=windows.max_pool_scatter)
take = _ours(
    "take",
    formula=lambda x, i, *, axis: jnp.take(x, i, axis, mode="wrap"),
    rounding=Rounding.NONE,
)
select_index = _ours(
    "select_index",
    formula=lambda x, *, axis, index: lax.index_in_dim(x, index, axis, keepdims=False),
    moves=True,
    rounding=Rounding.NONE,
)
factor = _ours("factor", formula=lambda x, *, divides: x, numpy=formulas.factor)
