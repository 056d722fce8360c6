"""Checkpoints of DEIMv2 on DINOv3, as transformers saves them (5.24)."""

from weights.mapping import Naming, Rule, nested
from weights.namings import conventions, huggingface_names
from weights.namings.detection_names import chosen_points, linear_layers


def _convolution(ours: str, theirs: str) -> tuple[Rule, ...]:
    """A convolution and its batch norm."""
    norm = f"{ours}.batch_norm"
    return (
        Rule(f"{ours}.conv.weight", (f"{theirs}.conv.weight",)),
        Rule(f"{norm}.mean", (f"{theirs}.norm.running_mean",)),
        Rule(f"{norm}.var", (f"{theirs}.norm.running_var",)),
        Rule(f"{norm}.{{p}}", (f"{theirs}.norm.{{p}}",)),
    )


def _attention(ours: str, theirs: str) -> tuple[Rule, ...]:
    """Self-attention, with a layer for each of queries, keys and values."""
    return (
        *huggingface_names.projections(tuple(f"{theirs}.{part}_proj" for part in "qkv"), ours),
        Rule(f"{ours}.proj.{{p}}", (f"{theirs}.o_proj.{{p}}",)),
    )


def _join(ours: str, theirs: str) -> tuple[Rule, ...]:
    """What makes one map of several steps."""
    branches = (("branch1", "csp_rep1"), ("branch2", "csp_rep2"))
    return (
        *_convolution(f"{ours}.{{i}}.conv1", f"{theirs}.{{i}}.conv1"),
        *_convolution(f"{ours}.{{i}}.conv2", f"{theirs}.{{i}}.conv2"),
        *(
            rule
            for one, other in branches
            for rule in (
                *_convolution(f"{ours}.{{i}}.{one}.conv", f"{theirs}.{{i}}.{other}.conv1"),
                *_convolution(
                    f"{ours}.{{i}}.{one}.bottlenecks.{{n}}.{{conv}}",
                    f"{theirs}.{{i}}.{other}.bottlenecks.{{n}}.{{conv}}",
                ),
            )
        ),
    )


_MAPS = "model.conv_encoder."
_ADAPTER = f"{_MAPS}spatial_tuning_adapter."
_PYRAMID = "model.encoder."
_BLOCK = f"{_PYRAMID}aifi.0.layers.{{i}}."
_FINDER = "model.decoder."
_LAYER = f"{_FINDER}layers.{{i}}."


def _deim(layer: str, in_memory: Naming | None = None) -> Naming:
    """The names, from what a block of DINOv3 is called."""
    backbone = f"{_MAPS}backbone."
    return Naming(
        conventions.HUGGINGFACE,
        (
            *nested(huggingface_names.dinov3_rules(layer, "norm."), "backbone.", backbone),
            *_convolution("adapter.stem", f"{_ADAPTER}stem_conv"),
            *(
                rule
                for number in range(3)
                for rule in _convolution(f"adapter.convs.{number}", f"{_ADAPTER}conv{number + 2}")
            ),
            *_convolution("fusions.{i}", f"{_MAPS}fusion_proj.{{i}}"),
            *_attention("pyramid.blocks.{i}.attn", f"{_BLOCK}self_attn"),
            Rule("pyramid.blocks.{i}.norm1.{p}", (f"{_BLOCK}self_attn_layer_norm.{{p}}",)),
            Rule("pyramid.blocks.{i}.norm2.{p}", (f"{_BLOCK}final_layer_norm.{{p}}",)),
            Rule("pyramid.blocks.{i}.mlp.fc1.{p}", (f"{_BLOCK}mlp.layers.0.{{p}}",)),
            Rule("pyramid.blocks.{i}.mlp.fc2.{p}", (f"{_BLOCK}mlp.layers.1.{{p}}",)),
            *_convolution("pyramid.laterals.{i}", f"{_PYRAMID}lateral_convs.{{i}}"),
            *_convolution(
                "pyramid.halvings.{i}.{conv}", f"{_PYRAMID}downsample_convs.{{i}}.{{conv}}"
            ),
            *_join("pyramid.joins", f"{_PYRAMID}fpn_blocks"),
            *_join("pyramid.joins_back", f"{_PYRAMID}pan_blocks"),
            Rule("proposal_proj.{p}", ("model.enc_output.0.{p}",)),
            Rule("proposal_norm.{p}", ("model.enc_output.1.{p}",)),
            Rule("proposal_classes.{p}", ("model.enc_score_head.{p}",)),
            linear_layers("proposal_boxes", "model.enc_bbox_head"),
            linear_layers("positions", f"{_FINDER}query_pos_head"),
            *_attention("blocks.{i}.attn", f"{_LAYER}self_attn"),
            Rule("blocks.{i}.norm1.{p}", (f"{_LAYER}self_attn_layer_norm.{{p}}",)),
            Rule("blocks.{i}.norm2.{p}", (f"{_LAYER}final_layer_norm.{{p}}",)),
            *chosen_points(f"{_LAYER}encoder_attn."),
            Rule("blocks.{i}.gate.linear.{p}", (f"{_LAYER}gateway.gate.{{p}}",)),
            Rule("blocks.{i}.gate.norm.{p}", (f"{_LAYER}gateway.norm.{{p}}",)),
            Rule("blocks.{i}.mlp.w1.{p}", (f"{_LAYER}mlp.gate_proj.{{p}}",)),
            Rule("blocks.{i}.mlp.w2.{p}", (f"{_LAYER}mlp.up_proj.{{p}}",)),
            Rule("blocks.{i}.mlp.w3.{p}", (f"{_LAYER}mlp.down_proj.{{p}}",)),
            linear_layers("first_boxes", f"{_FINDER}pre_bbox_head"),
            Rule("class_heads.{i}.{p}", (f"{_FINDER}class_embed.{{i}}.{{p}}",)),
            linear_layers("box_heads.{i}", f"{_FINDER}bbox_embed.{{i}}"),
            linear_layers("quality.{i}", f"{_FINDER}lqe_layers.{{i}}.reg_conf"),
            Rule("bins.up", (f"{_FINDER}up",)),
            Rule("bins.scale", (f"{_FINDER}reg_scale",)),
            Rule("denoising", ("model.denoising_class_embed.weight?",)),
        ),
        zero=tuple(f"{backbone}{layer}attention.{part}_proj.bias" for part in "qkv"),
        computed=("**.num_points_scale", "**.num_batches_tracked"),
        in_memory=in_memory,
    )


DEIM = _deim("layer.{i}.", in_memory=_deim("model.layer.{i}."))
