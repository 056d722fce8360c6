"""How seeded weights are distributed, by the kind of parameter.

Nothing here resembles training. The spreads are chosen so that every part of a network shows in
its output: with the usual 0.02 everywhere attention is nearly flat and residual branches vanish,
which would hide a mistake in either.
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

# The first pattern that matches a name decides; names of checkpoints and of models both match.
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
    # The last bias of a depth decoder: behind it negative numbers are cut off.
    "*norm*.weight *.bn.weight decoder.conv3.bias head.conv3.bias *.output_conv2.2.bias": "norm",
    "*ln_[12fp]*.weight": "norm",
    "logit_scale logit_bias": "norm",
    "query_boxes denoising *denoising_class_embed.weight": "narrow",
    "bins.* *decoder.up *.reg_scale": "norm",
    # Swin V2: scales of cosines, some above what they are cut to; biases of positions.
    "*.logit_scale": "log_scale",
    "*.cpb1.weight *.cpb2.weight *.cpb_mlp.?.weight *.reduction.weight": "wide",
    "*.[qv]_bias": "qkv_bias",
    "*.grn.weight": "scale",
    "*.grn.beta": "narrow",
    # Queries, keys and values, also by themselves: of a pooling head, and in transformers' files.
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
    """The kind of the parameter called `name`."""
    for patterns, kind in KINDS.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return kind
    raise KeyError(f"no distribution for a parameter called {name!r}: add a row to KINDS")


def normal(shape: Shape, rng: np.random.Generator, std: float) -> Float32:
    """Normal values around 0, drawn and scaled in float32."""
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(std)
    return values


def key_mask(shape: Shape) -> Float32:
    """Ones for the queries' and the values' thirds, zeros for the keys'."""
    mask = np.ones(shape, np.float32)
    third = shape[0] // 3
    mask[third : 2 * third] = 0
    return mask


def _uniform(shape: Shape, rng: np.random.Generator, below: float) -> Float32:
    return rng.random(shape, dtype=np.float32) * np.float32(below)


def exact_periods(count: int) -> Float32:
    """Rotary periods `100^(k / count)` in float32."""
    exact = 100.0 ** (2.0 * np.arange(count, dtype=np.float64) / (2 * count))
    return exact.astype(np.float32)


def periods(count: int) -> Float32:
    """Rotary periods, rounded to bfloat16 as the published files hold them."""
    return round_to_bfloat16(exact_periods(count))


def frequencies(count: int, theta: float) -> Float32:
    """ViT-5's rotary frequencies `theta^(-k / count)` in float32."""
    exact = theta ** (-np.arange(count, dtype=np.float64) / count)
    return exact.astype(np.float32)


def round_to_bfloat16(x: Float32) -> Float32:
    """The nearest bfloat16 values, ties to even, as float32."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


DRAWS: dict[str, Draw] = {
    "qkv": lambda shape, rng: normal(shape, rng, 1.25 / math.sqrt(math.prod(shape[1:]))),
    "wide": lambda shape, rng: normal(shape, rng, 1.0 / math.sqrt(math.prod(shape[1:]))),
    "narrow": lambda shape, rng: normal(shape, rng, 0.02),
    "qkv_bias": lambda shape, rng: normal(shape, rng, 0.2),
    "token": lambda shape, rng: normal(shape, rng, 0.5),
    "positions": lambda shape, rng: normal(shape, rng, 0.2),
    # Centred before 1 is added, not after: [0.9, 1.1).
    "norm": lambda shape, rng: np.float32(1) + (_uniform(shape, rng, 0.2) - np.float32(0.1)),
    "scale": lambda shape, rng: np.float32(0.05) + _uniform(shape, rng, 0.95),
    "log_scale": lambda shape, rng: np.float32(1.5) + normal(shape, rng, 1.5),
    "mask": lambda shape, _: key_mask(shape),
    "zeros": lambda shape, _: np.zeros(shape, np.float32),
    "periods": lambda shape, _: periods(shape[0]),
    "frequencies": lambda shape, _: frequencies(shape[0], 10000.0),
    "register_frequencies": lambda shape, _: frequencies(shape[0], 100.0),
}
