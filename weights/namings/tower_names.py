"""Names of text towers: TIPS, by Google and for transformers (5.24), and dino.txt.

The files of transformers have Google's names, with a prefix for each tower. Only the feed-forward
layers of the image tower have other names. Meta publishes dino.txt without its backbone.

Sources: `pytorch/text_encoder.py` of google-deepmind/tips; `conversion_mapping.py` of transformers;
`dinov3/hub/dinotxt.py` and `dinov3/eval/text` of facebookresearch/dinov3.
"""

from dataclasses import replace

from weights.mapping import Naming, Rule, prefix_rules, same_names
from weights.namings import clip_names, conventions, huggingface_names, meta_names

IMAGES, TEXTS = "vision_encoder.", "text_encoder."
"""Prefixes of the keys of TIPS's towers in a checkpoint of both."""

TIPS_TEXT = Naming(
    conventions.GOOGLE,
    (
        Rule("token_embed.weight", ("token_embedding.weight",)),
        *clip_names.RESBLOCKS,
        Rule("norm.{p}", ("ln_final.{p}",)),
    ),
)
# In memory, transformers uses the names of its other models for both towers.
HUB_TIPS_TEXT = replace(
    TIPS_TEXT,
    convention=conventions.HUGGINGFACE,
    in_memory=replace(huggingface_names.SIGLIP_TEXT, rules=huggingface_names.TEXT_RULES),
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


def _join_towers(
    vision: Naming, text: Naming, prefixes: tuple[str, str] = (IMAGES, TEXTS)
) -> Naming:
    """Return the naming of a checkpoint with both towers, from the namings of the tower for
    pictures (`vision`) and of that for texts (`text`).

    `prefixes` are the prefixes of their names in the file, in this order.
    """
    return Naming(
        vision.convention,
        (
            *prefix_rules(vision.rules, "vision.", prefixes[0]),
            *prefix_rules(text.rules, "words.", prefixes[1]),
            *same_names("temperature"),
        ),
    )


def _hub_tips_naming() -> Naming:
    """Return the naming of transformers' `Tipsv2Model`, with that of the module in memory."""
    vision, text = HUB_TIPS_VIT.in_memory, HUB_TIPS_TEXT.in_memory
    assert vision is not None and text is not None
    in_memory = _join_towers(vision, text, ("vision_model.", "text_model."))
    return replace(_join_towers(HUB_TIPS_VIT, TIPS_TEXT), in_memory=in_memory)


TIPS_DUAL = _join_towers(TIPS_VIT, TIPS_TEXT)
HUB_TIPS_DUAL = _hub_tips_naming()

_TEXT, _VISION = "text_model.", "visual_model."
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
        *prefix_rules(
            (
                Rule("head_blocks.{i}.prenorm.{p}", ("head.blocks.{i}.norm1.{p}",)),
                Rule("head_blocks.{i}.norm.{p}", ("head.blocks.{i}.norm2.{p}",)),
                Rule("head_blocks.{i}.{scale}.gamma", ("head.blocks.{i}.{scale}.gamma",)),
                Rule("head_blocks.{i}.{part}.{layer}.{p}", ("head.blocks.{i}.{part}.{layer}.{p}",)),
                Rule("head_norm.{p}", ("head.ln_final.{p}",)),
                *prefix_rules(meta_names.DINOV3_VIT.rules, "", "backbone."),
            ),
            "vision.",
            _VISION,
        ),
        *prefix_rules(_DINOTXT_TEXT, "words.", _TEXT),
        *same_names("logit_scale"),
    ),
)
