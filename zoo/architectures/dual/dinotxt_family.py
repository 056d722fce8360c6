"""dino.txt (Jose et al., 2024, arXiv:2412.16334): DINOv3's ViT-L/16 with two more blocks, and a
transformer for texts, for classes that are described in words.

A picture's vector is the class token with the mean of the patches behind it, a text's is a linear
layer's of the token that ends the words. Both were trained on a backbone that stayed as it was,
which Meta publishes by itself.

Source: `dinov3/hub/dinotxt.py` and `dinov3/eval/text` of facebookresearch/dinov3 (Siméoni et al.,
2025, arXiv:2508.10104); words are those of CLIP.
"""

from dataclasses import replace

from weights.namings import tower_names
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import dinov3, shared
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.vit_config import HeadBlocks, ViTConfig

VISION = replace(ViTConfig(*shared.LARGE), head_blocks=HeadBlocks(2, hidden=2752), pool="both")
WORDS = TextConfig(
    *(1280, 24, 20, 5120),
    projection=2 * VISION.dim,
    vocabulary=49_408,
    tokens=77,
    activation="gelu",
    norm_eps=1e-5,
    causal=True,
    pool="greatest",
    qkv_bias=False,
    head_bias=False,
)

_TEXT = ModelInfo(
    name="dinov3_vitl16_dinotxt_text",
    family="dinotxt_text",
    config=WORDS,
    namings=(tower_names.DINOTXT_TEXT,),
    preprocessing=dinov3.LVD,
    licence=dinov3.LICENCE,
    checkpoint="dinov3_vitl16_dinotxt_vision_head_and_text_encoder-a442d8f5.pth",
    parameters=538_131_200,
    source="facebookresearch/dinov3",
    papers=("2412.16334", "2508.10104"),
    pooler="a linear layer on the token that ends the words",
)

_DUAL = replace(
    _TEXT,
    name="dinov3_vitl16_dinotxt_dual",
    family="dinotxt_dual",
    aliases=("dinov3_vitl16_dinotxt_tet1280d20h24l", "dinov3_vitl16_dinotxt"),
    config=DualConfig(VISION, WORDS, bias=False),
    namings=(tower_names.DINOTXT_DUAL,),
    parameters=866_611_713,
    pooler="",
)

MODELS = (_TEXT, _DUAL)
