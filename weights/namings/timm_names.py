"""Names in files of timm (1.0.31): the keys of its `Eva` with DINOv3's settings, and of its
`VisionTransformer`.

Some DINOv3 variants have a bias of queries and values (`…_qkvb`), others have none. Keys never have
a bias. The files contain no rotary periods, no mask tokens and no second final norm, which only
training uses.
"""

from weights.mapping import Naming, Rule, same_names
from weights.namings import conventions
from weights.namings.meta_names import PLAIN_VIT_RULES
from weights.transforms import BIAS_OUTER_THIRDS, UNBATCH, float32_periods, ones

DINOV3_VIT = Naming(
    conventions.TIMM,
    (
        Rule("reg_tokens", ("reg_token",), UNBATCH),
        Rule("mask_token", ()),
        Rule("local_pos_embed.periods", (), missing=float32_periods),
        Rule(
            "blocks.{i}.attn.qkv.bias",
            ("blocks.{i}.attn.q_bias?", "blocks.{i}.attn.v_bias?"),
            BIAS_OUTER_THIRDS,
        ),
        Rule("blocks.{i}.ls{n}.gamma", ("blocks.{i}.gamma_{n}",)),
        Rule("blocks.{i}.mlp.w1.{p}", ("blocks.{i}.mlp.fc1_g.{p}",)),
        Rule("blocks.{i}.mlp.w2.{p}", ("blocks.{i}.mlp.fc1_x.{p}",)),
        Rule("blocks.{i}.mlp.w3.{p}", ("blocks.{i}.mlp.fc2.{p}",)),
        Rule("local_cls_norm.weight", (), missing=ones),
        Rule("local_cls_norm.bias", ()),
        *PLAIN_VIT_RULES,
    ),
)

# DeiT's networks with a distillation token. Its authors use the same names.
DISTILLED_VIT = Naming(
    conventions.TIMM,
    (
        Rule("reg_tokens", ("dist_token",), UNBATCH),
        *same_names("head_dist.{p}"),
        *PLAIN_VIT_RULES,
    ),
)

_VIT = (
    Rule("reg_tokens", ("reg_token",), UNBATCH),
    Rule("mask_token", ()),
    Rule("pre_norm.{p}", ("norm_pre.{p}",)),
    Rule("blocks.{i}.mlp.w12.{p}", ("blocks.{i}.mlp.fc1.{p}",)),
    Rule("blocks.{i}.mlp.w3.{p}", ("blocks.{i}.mlp.fc2.{p}",)),
    Rule("attn_pool.latent", ("attn_pool.latent",), UNBATCH),
    *same_names("attn_pool.{layer}.{p}", "attn_pool.mlp.{layer}.{p}"),
    *PLAIN_VIT_RULES,
)

VIT = Naming(conventions.TIMM, _VIT)

# Networks that normalize the mean of the patches. No leaf is named `fc_norm`: a rule for it
# distinguishes the naming of such networks from that of others.
AVERAGED_VIT = Naming(
    conventions.TIMM, (Rule("norm.{p}", ("fc_norm.{p}",)), *same_names("fc_norm.{p}"), *_VIT)
)
