"""Depth Anything V2 by transformers, and the authors' names of its tensors.

The names are those of `depth_anything_v2/dpt.py` in DepthAnything/Depth-Anything-V2. It counts the
maps and the fusion blocks from the finest, and transformers from the coarsest.
"""

import re

import numpy as np
from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import depth_names
from zoo.architectures.depth.depth_config import DepthConfig

HEAD = "depth_head."
BLOCK = "pretrained.blocks."
AUTHORS = (
    (r"backbone\.embeddings\.cls_token", "pretrained.cls_token"),
    (r"backbone\.embeddings\.mask_token", "pretrained.mask_token"),
    (r"backbone\.embeddings\.position_embeddings", "pretrained.pos_embed"),
    (r"backbone\.embeddings\.patch_embeddings\.projection", "pretrained.patch_embed.proj"),
    (r"backbone\.encoder\.layer\.", BLOCK),
    (r"backbone\.layernorm", "pretrained.norm"),
    (r"attention\.output\.dense", "attn.proj"),
    (r"layer_scale(\d)\.lambda1", r"ls\1.gamma"),
    (r"neck\.reassemble_stage\.layers\.(\d)\.projection", HEAD + r"projects.\1"),
    (r"neck\.reassemble_stage\.layers\.(\d)\.resize", HEAD + r"resize_layers.\1"),
    (r"neck\.convs\.(\d)", lambda m: f"{HEAD}scratch.layer{int(m[1]) + 1}_rn"),
    (
        r"neck\.fusion_stage\.layers\.(\d)\.",
        lambda m: f"{HEAD}scratch.refinenet{4 - int(m[1])}.",
    ),
    (r"residual_layer(\d)\.convolution(\d)", r"resConfUnit\1.conv\2"),
    (r"(refinenet\d)\.projection", r"\1.out_conv"),
    (r"^head\.conv1", HEAD + "scratch.output_conv1"),
    (r"^head\.conv2", HEAD + "scratch.output_conv2.0"),
    (r"^head\.conv3", HEAD + "scratch.output_conv2.2"),
)
"""Patterns of transformers' keys, and their replacements in the authors' file."""


def authors_state(values: Values) -> dict[str, np.ndarray]:
    """Return the leaves as the authors' file has them.

    They are converted from transformers' keys.
    """
    state: dict[str, np.ndarray] = {}
    split_tensors: dict[str, list[np.ndarray]] = {}
    for key, value in running.file_state(depth_names.HUGGINGFACE, values).items():
        for pattern, replacement in AUTHORS:
            key = re.sub(pattern, replacement, key)
        if match := re.fullmatch(r"(.*)attention\.attention\.(query|key|value)\.(\w+)", key):
            # transformers' file has them in this order, too.
            split_tensors.setdefault(f"{match[1]}attn.qkv.{match[3]}", []).append(value)
        else:
            state[key] = value
    return state | {key: np.concatenate(thirds) for key, thirds in split_tensors.items()}


def transformers(config: DepthConfig, values: Values):
    backbone = config.backbone
    backbone_settings = Dinov2Config(
        **running.learned(backbone),
        mlp_ratio=backbone.hidden // backbone.dim,
        out_indices=list(config.layers),
        apply_layernorm=True,
        reshape_hidden_states=False,
    )
    settings = DepthAnythingConfig(
        backbone_config=backbone_settings,
        reassemble_hidden_size=backbone.dim,
        neck_hidden_sizes=list(config.channels),
        fusion_hidden_size=config.fused,
        head_hidden_size=config.hidden,
        depth_estimation_type="metric" if config.max_depth else "relative",
        max_depth=int(config.max_depth or 1),
    )
    model_class, names = DepthAnythingForDepthEstimation, depth_names.HUGGINGFACE
    return running.transformers_model(model_class, settings, names, values)


def by_transformers(config: DepthConfig, values: Values, image) -> Arrays:
    model = transformers(config, values)
    return running.run_transformers(model, image, names=("predicted_depth",))


REFERENCES = {
    name: {"transformers": by_transformers}
    for name in ("depth_anything_v2_vits", "depth_anything_v2_outdoor_vits")
}
