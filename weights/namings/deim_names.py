"""Names of the tensors of DEIMv2 on DINOv3 in the files of transformers (5.24)."""

from weights.mapping import Naming, Rule, prefix_rules
from weights.namings import conventions, huggingface_names
from weights.namings.detection_names import linear_layers, sampling_points


def _convolution(leaf: str, key: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of a convolution and its batch norm to leaves of the
    model. `leaf` is the path of the layer in the model, and `key` its name in the file."""
    norm = f"{leaf}.batch_norm"
    return (
        Rule(f"{leaf}.conv.weight", (f"{key}.conv.weight",)),
        Rule(f"{norm}.mean", (f"{key}.norm.running_mean",)),
        Rule(f"{norm}.var", (f"{key}.norm.running_var",)),
        Rule(f"{norm}.{{p}}", (f"{key}.norm.{{p}}",)),
    )


def _attention(leaf: str, key: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of self-attention to leaves of the model. In the file,
    queries, keys and values have separate layers. `leaf` is the path in the model, and `key` the
    name in the file."""
    return (
        *huggingface_names.qkv_rules(tuple(f"{key}.{part}_proj" for part in "qkv"), leaf),
        Rule(f"{leaf}.proj.{{p}}", (f"{key}.o_proj.{{p}}",)),
    )


def _fusion_block(leaf: str, key: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of blocks, which fuse maps of two resolutions into one,
    to leaves of the model. `leaf` is their path in the model, and `key` their name in the file,
    before the number of the block."""
    branches = (("branch1", "csp_rep1"), ("branch2", "csp_rep2"))
    return (
        *_convolution(f"{leaf}.{{i}}.conv1", f"{key}.{{i}}.conv1"),
        *_convolution(f"{leaf}.{{i}}.conv2", f"{key}.{{i}}.conv2"),
        *(
            rule
            for leaf_branch, key_branch in branches
            for rule in (
                *_convolution(
                    f"{leaf}.{{i}}.{leaf_branch}.conv", f"{key}.{{i}}.{key_branch}.conv1"
                ),
                *_convolution(
                    f"{leaf}.{{i}}.{leaf_branch}.bottlenecks.{{n}}.{{conv}}",
                    f"{key}.{{i}}.{key_branch}.bottlenecks.{{n}}.{{conv}}",
                ),
            )
        ),
    )


_ENCODER = "model.conv_encoder."
_ADAPTER = f"{_ENCODER}spatial_tuning_adapter."
_PYRAMID = "model.encoder."
_BLOCK = f"{_PYRAMID}aifi.0.layers.{{i}}."
_DECODER = "model.decoder."
_LAYER = f"{_DECODER}layers.{{i}}."


def _deim(layer: str, in_memory: Naming | None = None) -> Naming:
    """Return the naming of DEIMv2. `layer` is the prefix of a block of its DINOv3 in the file, and
    `in_memory` the naming of the module in memory; None if it is the same."""
    backbone = f"{_ENCODER}backbone."
    return Naming(
        conventions.HUGGINGFACE,
        (
            *prefix_rules(huggingface_names.dinov3_rules(layer, "norm."), "backbone.", backbone),
            *_convolution("adapter.stem", f"{_ADAPTER}stem_conv"),
            *(
                rule
                for number in range(3)
                for rule in _convolution(f"adapter.convs.{number}", f"{_ADAPTER}conv{number + 2}")
            ),
            *_convolution("fusions.{i}", f"{_ENCODER}fusion_proj.{{i}}"),
            *_attention("pyramid.blocks.{i}.attn", f"{_BLOCK}self_attn"),
            Rule("pyramid.blocks.{i}.norm1.{p}", (f"{_BLOCK}self_attn_layer_norm.{{p}}",)),
            Rule("pyramid.blocks.{i}.norm2.{p}", (f"{_BLOCK}final_layer_norm.{{p}}",)),
            Rule("pyramid.blocks.{i}.mlp.fc1.{p}", (f"{_BLOCK}mlp.layers.0.{{p}}",)),
            Rule("pyramid.blocks.{i}.mlp.fc2.{p}", (f"{_BLOCK}mlp.layers.1.{{p}}",)),
            *_convolution("pyramid.laterals.{i}", f"{_PYRAMID}lateral_convs.{{i}}"),
            *_convolution(
                "pyramid.halvings.{i}.{conv}", f"{_PYRAMID}downsample_convs.{{i}}.{{conv}}"
            ),
            *_fusion_block("pyramid.joins", f"{_PYRAMID}fpn_blocks"),
            *_fusion_block("pyramid.joins_back", f"{_PYRAMID}pan_blocks"),
            Rule("proposal_proj.{p}", ("model.enc_output.0.{p}",)),
            Rule("proposal_norm.{p}", ("model.enc_output.1.{p}",)),
            Rule("proposal_classes.{p}", ("model.enc_score_head.{p}",)),
            linear_layers("proposal_boxes", "model.enc_bbox_head"),
            linear_layers("positions", f"{_DECODER}query_pos_head"),
            *_attention("blocks.{i}.attn", f"{_LAYER}self_attn"),
            Rule("blocks.{i}.norm1.{p}", (f"{_LAYER}self_attn_layer_norm.{{p}}",)),
            Rule("blocks.{i}.norm2.{p}", (f"{_LAYER}final_layer_norm.{{p}}",)),
            *sampling_points(f"{_LAYER}encoder_attn."),
            Rule("blocks.{i}.gate.linear.{p}", (f"{_LAYER}gateway.gate.{{p}}",)),
            Rule("blocks.{i}.gate.norm.{p}", (f"{_LAYER}gateway.norm.{{p}}",)),
            Rule("blocks.{i}.mlp.w1.{p}", (f"{_LAYER}mlp.gate_proj.{{p}}",)),
            Rule("blocks.{i}.mlp.w2.{p}", (f"{_LAYER}mlp.up_proj.{{p}}",)),
            Rule("blocks.{i}.mlp.w3.{p}", (f"{_LAYER}mlp.down_proj.{{p}}",)),
            linear_layers("first_boxes", f"{_DECODER}pre_bbox_head"),
            Rule("class_heads.{i}.{p}", (f"{_DECODER}class_embed.{{i}}.{{p}}",)),
            linear_layers("box_heads.{i}", f"{_DECODER}bbox_embed.{{i}}"),
            linear_layers("quality.{i}", f"{_DECODER}lqe_layers.{{i}}.reg_conf"),
            Rule("bins.up", (f"{_DECODER}up",)),
            Rule("bins.scale", (f"{_DECODER}reg_scale",)),
            Rule("denoising", ("model.denoising_class_embed.weight?",)),
        ),
        zero=tuple(f"{backbone}{layer}attention.{part}_proj.bias" for part in "qkv"),
        computed=("**.num_points_scale", "**.num_batches_tracked"),
        in_memory=in_memory,
    )


DEIM = _deim("layer.{i}.", in_memory=_deim("model.layer.{i}."))
