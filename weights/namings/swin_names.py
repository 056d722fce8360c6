"""Names of Swin V2's tensors by its authors, timm (1.0.31) and transformers (5.24).

The authors' files also contain tables that the network computes from its sizes. In the authors' and
transformers' names, the layer that halves a map belongs to the stage before it. In timm's names it
belongs to the stage after it.

Sources: `models/swin_transformer_v2.py` of microsoft/Swin-Transformer,
`timm/models/swin_transformer_v2.py`, `modeling_swinv2.py` of transformers.
"""

from weights.mapping import Naming, Rule, prefix_rules, same_names
from weights.namings import conventions
from weights.transforms import PER_CHANNEL, POINTWISE, THIRDS

BLOCK = "blocks.{s}.blocks.{i}."
DOWN = "blocks.{s}.downsample."
STAGES = 8
"""Largest number of stages for which timm's stage numbers are mapped. Published networks have four
stages."""

_IN_TIMM = "layers.{s}.blocks.{i}."

_EQUAL_NAMES = (
    "attn.qkv.weight",
    "attn.{part}_bias",
    "attn.proj.{p}",
    "mlp.{layer}.{p}",
    "norm{n}.{p}",
)

_SHARED_RULES = (
    *same_names("patch_embed.proj.weight", "norm.{p}"),
    Rule("patch_embed.proj.bias", ("patch_embed.proj.bias",), PER_CHANNEL),
    Rule("patch_norm.{p}", ("patch_embed.norm.{p}",)),
    *prefix_rules(same_names(*_EQUAL_NAMES), BLOCK, _IN_TIMM),
    Rule(BLOCK + "attn.logit_scale", (_IN_TIMM + "attn.logit_scale",), POINTWISE),
    Rule(BLOCK + "attn.cpb1.{p}", (_IN_TIMM + "attn.cpb_mlp.0.{p}",)),
    Rule(BLOCK + "attn.cpb2.{p}", (_IN_TIMM + "attn.cpb_mlp.2.{p}",)),
)
"""Rules that the authors' and timm's files share."""

ORIGINAL = Naming(
    conventions.ORIGINAL,
    (
        *_SHARED_RULES,
        Rule(DOWN + "{layer}.{p}", ("layers.{s}.downsample.{layer}.{p}",)),
        *same_names("head.{p}"),
    ),
    computed=("**.relative_coords_table", "**.relative_position_index", "**.attn_mask"),
)

TIMM = Naming(
    conventions.TIMM,
    (
        *_SHARED_RULES,
        *(
            Rule(
                f"blocks.{stage}.downsample.{{layer}}.{{p}}",
                (f"layers.{stage + 1}.downsample.{{layer}}.{{p}}",),
            )
            for stage in range(STAGES)
        ),
        Rule("head.{p}", ("head.fc.{p}",)),
    ),
)

_LAYER = "encoder.layers.{s}.blocks.{i}."
_SELF = _LAYER + "attention.self."

HUGGINGFACE = Naming(
    conventions.HUGGINGFACE,
    (
        Rule("patch_embed.proj.weight", ("embeddings.patch_embeddings.projection.weight",)),
        Rule(
            "patch_embed.proj.bias", ("embeddings.patch_embeddings.projection.bias",), PER_CHANNEL
        ),
        Rule("patch_norm.{p}", ("embeddings.norm.{p}",)),
        Rule(
            BLOCK + "attn.qkv.weight",
            tuple(f"{_SELF}{part}.weight" for part in ("query", "key", "value")),
            THIRDS,
        ),
        Rule(BLOCK + "attn.q_bias", (_SELF + "query.bias",)),
        Rule(BLOCK + "attn.v_bias", (_SELF + "value.bias",)),
        Rule(BLOCK + "attn.logit_scale", (_SELF + "logit_scale",), POINTWISE),
        Rule(BLOCK + "attn.cpb1.{p}", (_SELF + "continuous_position_bias_mlp.0.{p}",)),
        Rule(BLOCK + "attn.cpb2.{p}", (_SELF + "continuous_position_bias_mlp.2.{p}",)),
        Rule(BLOCK + "attn.proj.{p}", (_LAYER + "attention.output.dense.{p}",)),
        Rule(BLOCK + "mlp.fc1.{p}", (_LAYER + "intermediate.dense.{p}",)),
        Rule(BLOCK + "mlp.fc2.{p}", (_LAYER + "output.dense.{p}",)),
        Rule(BLOCK + "norm1.{p}", (_LAYER + "layernorm_before.{p}",)),
        Rule(BLOCK + "norm2.{p}", (_LAYER + "layernorm_after.{p}",)),
        Rule(DOWN + "{layer}.{p}", ("encoder.layers.{s}.downsample.{layer}.{p}",)),
        Rule("norm.{p}", ("layernorm.{p}",)),
        Rule("head.{p}", ("classifier.{p}",)),
    ),
    wrappers=("swinv2",),
)
