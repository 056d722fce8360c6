"""Names of CLIP's tensors in transformers (5.24), and in the files of OpenAI and open_clip.

Each file contains both towers. Each tower can also be read alone.

Sources: `modeling_clip.py` of transformers; `clip/model.py` of openai/CLIP; `open_clip/model.py`
and `open_clip/transformer.py` of mlfoundations/open_clip.
"""

from weights.mapping import Naming, Rule, prefix_rules
from weights.namings import conventions
from weights.namings.huggingface_names import BLOCK_RULES, TEXT_RULES
from weights.transforms import BATCH, TRANSPOSED

_VISION = (
    *BLOCK_RULES,
    Rule("cls_token", ("embeddings.class_embedding",), BATCH),
    Rule("patch_embed.proj.weight", ("embeddings.patch_embedding.weight",)),
    Rule("global_pos_embed.weight", ("embeddings.position_embedding.weight",)),
    Rule("pre_norm.{p}", ("pre_layrnorm.{p}",)),
    Rule("norm.{p}", ("post_layernorm.{p}",)),
)
_TEXT = (*TEXT_RULES, Rule("pos_embed", ("embeddings.position_embedding.weight",)))

# `CLIPVisionModel` and `CLIPTextModel`, without a projection.
BARE_VIT = Naming(conventions.HUGGINGFACE, _VISION)
BARE_TEXT = Naming(conventions.HUGGINGFACE, _TEXT)

# `CLIPForImageClassification`.
CLASSIFIER_VIT = Naming(
    conventions.HUGGINGFACE,
    (*_VISION, Rule("head.{p}", ("classifier.{p}",))),
    wrappers=("vision_model",),
)

# `CLIPVisionModelWithProjection` and `CLIPTextModelWithProjection`, alone or in a `CLIPModel`.
CLIP_VIT = Naming(
    conventions.HUGGINGFACE,
    (
        *prefix_rules(_VISION, "", "vision_model."),
        Rule("projection.weight", ("visual_projection.weight",)),
    ),
)
CLIP_TEXT = Naming(
    conventions.HUGGINGFACE,
    (*prefix_rules(_TEXT, "", "text_model."), Rule("head.weight", ("text_projection.weight",))),
)

_BLOCK = "transformer.resblocks.{i}."
RESBLOCKS = (
    Rule("blocks.{i}.prenorm.{p}", (_BLOCK + "ln_1.{p}",)),
    Rule("blocks.{i}.attn.qkv.{p}", (_BLOCK + "attn.in_proj_{p}",)),
    Rule("blocks.{i}.attn.proj.{p}", (_BLOCK + "attn.out_proj.{p}",)),
    Rule("blocks.{i}.norm.{p}", (_BLOCK + "ln_2.{p}",)),
    Rule("blocks.{i}.mlp.fc1.{p}", (_BLOCK + "mlp.c_fc.{p}",)),
    Rule("blocks.{i}.mlp.fc2.{p}", (_BLOCK + "mlp.c_proj.{p}",)),
)

ORIGINAL_VIT = Naming(
    conventions.ORIGINAL,
    (
        *RESBLOCKS,
        Rule("cls_token", ("class_embedding",), BATCH),
        Rule("patch_embed.proj.weight", ("conv1.weight",)),
        Rule("global_pos_embed.weight", ("positional_embedding",)),
        Rule("pre_norm.{p}", ("ln_pre.{p}",)),
        Rule("norm.{p}", ("ln_post.{p}",)),
        Rule("projection.weight", ("proj",), TRANSPOSED),
    ),
)
ORIGINAL_TEXT = Naming(
    conventions.ORIGINAL,
    (
        *RESBLOCKS,
        Rule("token_embed.weight", ("token_embedding.weight",)),
        Rule("pos_embed", ("positional_embedding",)),
        Rule("norm.{p}", ("ln_final.{p}",)),
        Rule("head.weight", ("text_projection",), TRANSPOSED),
    ),
)


def _join_towers(vision: Naming, vision_prefix: str, text: Naming) -> Naming:
    """Return the naming of a checkpoint with both towers, from the namings of the tower for
    pictures and of that for texts.

    `vision_prefix` is the prefix of the names of the tower for pictures. Those of the tower for
    texts have none.
    """
    towers = (
        *prefix_rules(vision.rules, "vision.", vision_prefix),
        *prefix_rules(text.rules, "words.", ""),
    )
    return Naming(vision.convention, (*towers, Rule("logit_scale", ("logit_scale",), BATCH)))


CLIP_DUAL = _join_towers(CLIP_VIT, "", CLIP_TEXT)
ORIGINAL_DUAL = _join_towers(ORIGINAL_VIT, "visual.", ORIGINAL_TEXT)
