"""Distributions of seeded weights, by the kind of parameter.

The values do not resemble trained weights. Their spreads are chosen so that every part of a network
affects its output. With the usual standard deviation of 0.02 everywhere, attention is nearly
uniform and residual branches vanish, which would hide mistakes in both.
"""

import math
from collections.abc import Callable
from fnmatch import fnmatchcase

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Shape = tuple[int, ...]
Draw = Callable[[Shape, np.random.Generator], Float32]

# Kind of parameter by patterns of names. The first pattern that matches decides. The names may be
# those of checkpoints or of models.
KINDS = {
    "*periods": "periods",
    "*reg*freqs": "register_frequencies",
    "*freqs": "frequencies",
    "*.bias_mask": "mask",
    "attn_mask_probs": "zeros",
    "*batch_norm.var *.running_var temperature": "scale",
    "*batch_norm.mean *.running_mean": "narrow",
    "*_token *_tokens *.latent *.probe queries query.weight query_feat": "token",
    "*pos_embed *pos_embed.weight *position_embedding* *token_embed*": "positions",
    "*positional_embedding *class_embedding": "positions",
    "*.gamma* *.lambda1": "scale",
    # The last bias of a depth decoder: negative results are set to zero after it.
    "*norm*.weight *.bn.weight decoder.conv3.bias head.conv3.bias *.output_conv2.2.bias": "norm",
    "*ln_[12fp]*.weight": "norm",
    "logit_scale logit_bias": "norm",
    "query_boxes denoising *denoising_class_embed.weight": "narrow",
    "bins.* *decoder.up *.reg_scale": "norm",
    # Swin V2: scales of cosines, some of them above the limit at which they are clipped, and
    # position biases.
    "*.logit_scale": "log_scale",
    "*.cpb1.weight *.cpb2.weight *.cpb_mlp.?.weight *.reduction.weight": "wide",
    "*.[qv]_bias": "qkv_bias",
    "*.grn.weight": "scale",
    "*.grn.beta": "narrow",
    # Queries, keys and values, together or separate, as in pooling heads and transformers' files.
    "*.qkv.weight *.in_proj_weight *.kv.weight *.q.weight *.[qkv]_proj.weight": "qkv",
    "*.qkv.bias *.in_proj_bias *.kv.bias *.q.bias *.[qkv]_proj.bias": "qkv_bias",
    "*patch_embed.proj.weight *conv*.weight *.patch_embedding.weight": "wide",
    # Meta's ConvNeXt: the stem is a convolution and a norm, the others a norm and a convolution.
    "downsample_layers.0.1.weight downsample_layers.[!0].0.weight": "norm",
    "downsample_layers.0.0.weight downsample_layers.[!0].1.weight": "wide",
    # Other convolutions of a depth decoder.
    "decoder.*.weight depth_head.*.weight neck.*.weight": "wide",
    "mask_head.*.weight class_*.weight": "wide",
    "*.fc1.weight *.w1.weight *.w2.weight *.w12.weight head.weight words.head.weight": "wide",
    "*.c_fc.weight *.linear_projection.weight": "wide",
    "*.weight *.bias *proj text_projection": "narrow",
}


def kind_of(name: str) -> str:
    """Return the kind of a parameter, a key of `DRAWS`, by the name of the parameter. **Raises**
    `KeyError` if no pattern matches."""
    for patterns, kind in KINDS.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return kind
    raise KeyError(f"no distribution for a parameter called {name!r}: add a row to KINDS")


def normal(shape: Shape, rng: np.random.Generator, std: float) -> Float32:
    """Return normally distributed values around 0 with this standard deviation, drawn and scaled in
    float32."""
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(std)
    return values


def key_mask(shape: Shape) -> Float32:
    """Return a mask over the concatenated biases of queries, keys and values: 0 in the middle
    third, that of the keys, and 1 elsewhere."""
    mask = np.ones(shape, np.float32)
    third = shape[0] // 3
    mask[third : 2 * third] = 0
    return mask


def _draw_uniform(shape: Shape, rng: np.random.Generator, upper: float) -> Float32:
    """Return uniformly distributed values from 0 to `upper`, which is excluded."""
    return rng.random(shape, dtype=np.float32) * np.float32(upper)


def exact_periods(count: int) -> Float32:
    """Return the `count` rotary periods `100^(k / count)` in float32."""
    periods64 = 100.0 ** (2.0 * np.arange(count, dtype=np.float64) / (2 * count))
    return periods64.astype(np.float32)


def periods(count: int) -> Float32:
    """Return the `count` rotary periods `100^(k / count)`, rounded to bfloat16 like those in the
    published files."""
    return round_to_bfloat16(exact_periods(count))


def frequencies(count: int, theta: float) -> Float32:
    """Return ViT-5's `count` rotary frequencies `theta^(-k / count)` in float32."""
    frequencies64 = theta ** (-np.arange(count, dtype=np.float64) / count)
    return frequencies64.astype(np.float32)


def round_to_bfloat16(x: Float32) -> Float32:
    """Return the nearest bfloat16 values as float32. Ties are rounded to even."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


DRAWS: dict[str, Draw] = {
    "qkv": lambda shape, rng: normal(shape, rng, 1.25 / math.sqrt(math.prod(shape[1:]))),
    "wide": lambda shape, rng: normal(shape, rng, 1.0 / math.sqrt(math.prod(shape[1:]))),
    "narrow": lambda shape, rng: normal(shape, rng, 0.02),
    "qkv_bias": lambda shape, rng: normal(shape, rng, 0.2),
    "token": lambda shape, rng: normal(shape, rng, 0.5),
    "positions": lambda shape, rng: normal(shape, rng, 0.2),
    # In [0.9, 1.1). The order of the operations determines the bits.
    "norm": lambda shape, rng: np.float32(1) + (_draw_uniform(shape, rng, 0.2) - np.float32(0.1)),
    "scale": lambda shape, rng: np.float32(0.05) + _draw_uniform(shape, rng, 0.95),
    "log_scale": lambda shape, rng: np.float32(1.5) + normal(shape, rng, 1.5),
    "mask": lambda shape, _: key_mask(shape),
    "zeros": lambda shape, _: np.zeros(shape, np.float32),
    "periods": lambda shape, _: periods(shape[0]),
    "frequencies": lambda shape, _: frequencies(shape[0], 10000.0),
    "register_frequencies": lambda shape, _: frequencies(shape[0], 100.0),
}
