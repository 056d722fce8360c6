"""Checkpoints of towers for texts: TIPS, by Google and for transformers (5.24), and dino.txt.

transformers keeps Google's names in its files, each tower's under a prefix; only the feed-forward
networks for images are called otherwise. Meta publishes dino.txt without its backbone.

Sources: `pytorch/text_encoder.py` of google-deepmind/tips; `conversion_mapping.py` of transformers;
`dinov3/hub/dinotxt.py` and `dinov3/eval/text` of facebookresearch/dinov3.
"""

from dataclasses import replace

from weights.mapping import Naming, Rule, nested, same
from weights.namings import clip_names, conventions, huggingface_names, meta_names

IMAGES, TEXTS = "vision_encoder.", "text_encoder."
"""What the keys of TIPS's towers begin with where both are in one checkpoint."""

TIPS_TEXT = Naming(
    conventions.GOOGLE,
    (
        Rule("token_embed.weight", ("token_embedding.weight",)),
        *clip_names.RESBLOCKS,
        Rule("norm.{p}", ("ln_final.{p}",)),
    ),
)
# transformers translates both towers' names into those of its other models.
HUB_TIPS_TEXT = replace(
    TIPS_TEXT,
    convention=conventions.HUGGINGFACE,
    in_memory=replace(huggingface_names.SIGLIP_TEXT, rules=huggingface_names.WORDS),
)

TIPS_VIT = replace(meta_names.DINOV2_VIT, convention=conventions.GOOGLE)
HUB_TIPS_VIT = replace(
    TIPS_VIT,
    convention=conventions.HUGGINGFACE,
    rules=(
        Rule("blocks.{i}.mlp.fc1.{p}", ("blocks.{i}.mlp.c_fc.{p}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", ("blocks.{i}.mlp.c_proj.{p}",)),
        *TIPS_VIT.rules,
    ),
    in_memory=huggingface_names.DINOV2_VIT.in_memory,
)


def _both(vision: Naming, text: Naming, prefixes: tuple[str, str] = (IMAGES, TEXTS)) -> Naming:
    """Return the names of both towers in one checkpoint, each tower's under its prefix."""
    return Naming(
        vision.convention,
        (
            *nested(vision.rules, "vision.", prefixes[0]),
            *nested(text.rules, "words.", prefixes[1]),
            *same("temperature"),
        ),
    )


def _hub_dual() -> Naming:
    """Return the names of `Tipsv2Model`: of its files, and of the module that reads them."""
    vision, text = HUB_TIPS_VIT.in_memory, HUB_TIPS_TEXT.in_memory
    assert vision is not None and text is not None
    in_memory = _both(vision, text, ("vision_model.", "text_model."))
    return replace(_both(HUB_TIPS_VIT, TIPS_TEXT), in_memory=in_memory)


TIPS_DUAL = _both(TIPS_VIT, TIPS_TEXT)
HUB_TIPS_DUAL = _hub_dual()

_WORDS, _PICTURES = "text_model.", "visual_model."
_BLOCK = "backbone.blocks.{i}."

_DINOTXT_TEXT = (
    Rule("token_embed.weight", ("backbone.token_embedding.weight",)),
    Rule("pos_embed", ("backbone.positional_embedding",)),
    Rule("blocks.{i}.prenorm.{p}", (_BLOCK + "attention_norm.{p}",)),
    Rule("blocks.{i}.attn.{layer}.{p}", (_BLOCK + "attention.{layer}.{p}",)),
    Rule("blocks.{i}.norm.{p}", (_BLOCK + "ffn_norm.{p}",)),
    Rule("blocks.{i}.mlp.{layer}.{p}", (_BLOCK + "feed_forward.{layer}.{p}",)),
    Rule("norm.{p}", ("backbone.ln_final.{p}",)),
    Rule("head.weight", ("head.linear_projection.weight",)),
)

DINOTXT_TEXT = Naming(conventions.META, _DINOTXT_TEXT)

DINOTXT_DUAL = Naming(
    conventions.META,
    (
        *nested(
            (
                Rule("head_blocks.{i}.prenorm.{p}", ("head.blocks.{i}.norm1.{p}",)),
                Rule("head_blocks.{i}.norm.{p}", ("head.blocks.{i}.norm2.{p}",)),
                Rule("head_blocks.{i}.{scale}.gamma", ("head.blocks.{i}.{scale}.gamma",)),
                Rule("head_blocks.{i}.{part}.{layer}.{p}", ("head.blocks.{i}.{part}.{layer}.{p}",)),
                Rule("head_norm.{p}", ("head.ln_final.{p}",)),
                *nested(meta_names.DINOV3_VIT.rules, "", "backbone."),
            ),
            "vision.",
            _PICTURES,
        ),
        *nested(_DINOTXT_TEXT, "words.", _WORDS),
        *same("logit_scale"),
    ),
)
