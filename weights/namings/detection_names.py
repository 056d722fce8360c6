"""Checkpoints of RF-DETR: its authors', whose names transformers' files (5.24) have too."""

from dataclasses import replace

from weights.mapping import Naming, Rule, nested
from weights.namings import conventions, huggingface_names
from weights.transforms import PER_CHANNEL


def linear_layers(ours: str, theirs: str) -> Rule:
    """A few linear layers."""
    return Rule(f"{ours}.layers.{{n}}.{{p}}", (f"{theirs}.layers.{{n}}.{{p}}",))


def _projector(theirs: str, convs: tuple[str, str], norm: str, bottleneck: str) -> tuple[Rule, ...]:
    """Rules for the projector, from what it calls its convolutions, their norms and its parts."""
    whole = (
        rule
        for number, conv in enumerate(convs, start=1)
        for rule in (
            Rule(f"projector.conv{number}.conv.weight", (f"{theirs}{conv}.conv.weight",)),
            Rule(f"projector.conv{number}.norm.{{p}}", (f"{theirs}{conv}.{norm}.{{p}}",)),
        )
    )
    inner = (
        rule
        for number, conv in enumerate(convs)
        for rule in (
            Rule(
                f"projector.bottlenecks.{{i}}.{number}.conv.weight",
                (f"{theirs}{bottleneck}.{{i}}.{conv}.conv.weight",),
            ),
            Rule(
                f"projector.bottlenecks.{{i}}.{number}.norm.{{p}}",
                (f"{theirs}{bottleneck}.{{i}}.{conv}.{norm}.{{p}}",),
            ),
        )
    )
    return (*whole, *inner)


def chosen_points(cross: str) -> tuple[Rule, ...]:
    """Points of maps that attention chooses, and how it weighs them."""
    return (
        Rule("blocks.{i}.cross.offsets.{p}", (f"{cross}sampling_offsets.{{p}}",)),
        Rule("blocks.{i}.cross.weights.{p}", (f"{cross}attention_weights.{{p}}",)),
    )


def _cross(layer: str) -> tuple[Rule, ...]:
    """Attention to points of the map."""
    cross = f"{layer}cross_attn."
    return (
        *chosen_points(cross),
        Rule("blocks.{i}.cross.value.{p}", (f"{cross}value_proj.{{p}}",)),
        Rule("blocks.{i}.cross.proj.{p}", (f"{cross}output_proj.{{p}}",)),
    )


def _proposals(theirs: str) -> tuple[Rule, ...]:
    """What the places of the map propose, a head for each group of queries."""
    return (
        Rule("proposals.{i}.proj.{p}", (f"{theirs}enc_output.{{i}}.{{p}}",)),
        Rule("proposals.{i}.norm.{p}", (f"{theirs}enc_output_norm.{{i}}.{{p}}",)),
        Rule("proposals.{i}.classes.{p}", (f"{theirs}enc_out_class_embed.{{i}}.{{p}}",)),
        linear_layers("proposals.{i}.boxes", f"{theirs}enc_out_bbox_embed.{{i}}"),
    )


_HEADS = (Rule("class_head.{p}", ("class_embed.{p}",)), linear_layers("box_head", "bbox_embed"))


def _convolution(ours: str, theirs: str) -> tuple[Rule, ...]:
    return (
        Rule(f"{ours}.weight", (f"{theirs}.weight",)),
        Rule(f"{ours}.bias", (f"{theirs}.bias",), PER_CHANNEL),
    )


def _masks(
    conv: str, norm: str, linear: str, query_norm: str, layers: tuple[str, str], bias: str
) -> tuple[Rule, ...]:
    """Rules for masks, from what is called otherwise by some."""
    blocks = "blocks.{i}."
    query = "query_features_block."
    return (
        *_convolution("instance_head.blocks.{i}.conv", f"{blocks}{conv}"),
        Rule("instance_head.blocks.{i}.norm.{p}", (f"{blocks}{norm}.{{p}}",)),
        Rule("instance_head.blocks.{i}.linear.{p}", (f"{blocks}{linear}.{{p}}",)),
        *_convolution("instance_head.proj", "spatial_features_proj"),
        Rule("instance_head.norm.{p}", (f"{query}{query_norm}.{{p}}",)),
        Rule("instance_head.mlp.fc1.{p}", (f"{query}{layers[0]}.{{p}}",)),
        Rule("instance_head.mlp.fc2.{p}", (f"{query}{layers[1]}.{{p}}",)),
        Rule("instance_head.query_proj.{p}", ("query_features_proj.{p}",)),
        Rule("instance_head.bias", (bias,)),
    )


_STAGE = "backbone.0.projector.stages.0."
_LAYER = "transformer.decoder.layers.{i}."
_BACKBONE = huggingface_names.DINOV2_VIT

_M = "model."
_LAYER_M = "model.decoder.layers.{i}."
_PROJECTOR_M = "model.backbone.projector."

_IN_MEMORY = Naming(
    conventions.HUGGINGFACE,
    (
        *nested(
            huggingface_names.dinov2_rules(huggingface_names.IN_MEMORY, (), "down_proj"),
            "backbone.",
            "model.backbone.backbone.",
        ),
        *_projector(f"{_PROJECTOR_M}projector_layer.", ("conv1", "conv2"), "norm", "bottlenecks"),
        Rule("projector.norm.{p}", (f"{_PROJECTOR_M}layer_norm.{{p}}",)),
        *_proposals(_M),
        Rule("query_feat", (f"{_M}query_feat.weight",)),
        Rule("query_boxes", (f"{_M}reference_point_embed.weight",)),
        linear_layers("positions", "model.decoder.ref_point_head"),
        *huggingface_names.projections(tuple(f"{_LAYER_M}self_attn.{part}_proj" for part in "qkv")),
        Rule("blocks.{i}.attn.proj.{p}", (f"{_LAYER_M}self_attn.o_proj.{{p}}",)),
        *_cross(_LAYER_M),
        Rule("blocks.{i}.mlp.{layer}.{p}", (f"{_LAYER_M}mlp.{{layer}}.{{p}}",)),
        Rule("blocks.{i}.norm1.{p}", (f"{_LAYER_M}self_attn_layer_norm.{{p}}",)),
        Rule("blocks.{i}.norm2.{p}", (f"{_LAYER_M}cross_attn_layer_norm.{{p}}",)),
        Rule("blocks.{i}.norm3.{p}", (f"{_LAYER_M}layer_norm.{{p}}",)),
        Rule("norm.{p}", ("model.decoder.layernorm.{p}",)),
        *_HEADS,
    ),
)

RF_DETR = Naming(
    conventions.HUGGINGFACE,
    (
        # Of training, and not in all of the authors' files.
        Rule("backbone.mask_token", ("backbone.0.encoder.encoder.embeddings.mask_token?",)),
        *nested(_BACKBONE.rules, "backbone.", "backbone.0.encoder.encoder."),
        *_projector(f"{_STAGE}0.", ("cv1", "cv2"), "bn", "m"),
        Rule("projector.norm.{p}", (f"{_STAGE}1.{{p}}",)),
        *_proposals("transformer."),
        Rule("query_feat", ("query_feat.weight",)),
        Rule("query_boxes", ("refpoint_embed.weight",)),
        linear_layers("positions", "transformer.decoder.ref_point_head"),
        Rule("blocks.{i}.attn.qkv.{p}", (f"{_LAYER}self_attn.in_proj_{{p}}",)),
        Rule("blocks.{i}.attn.proj.{p}", (f"{_LAYER}self_attn.out_proj.{{p}}",)),
        *_cross(_LAYER),
        Rule("blocks.{i}.mlp.fc1.{p}", (f"{_LAYER}linear1.{{p}}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (f"{_LAYER}linear2.{{p}}",)),
        Rule("blocks.{i}.norm{n}.{p}", (f"{_LAYER}norm{{n}}.{{p}}",)),
        Rule("norm.{p}", ("transformer.decoder.norm.{p}",)),
        *_HEADS,
        *nested(
            _masks("dwconv", "norm", "pwconv1", "norm_in", ("layers.0", "layers.2"), "bias"),
            "",
            "segmentation_head.",
        ),
    ),
    in_memory=_IN_MEMORY,
)

RF_DETR_MASKS = replace(
    RF_DETR,
    in_memory=Naming(
        conventions.HUGGINGFACE,
        (
            *nested(_IN_MEMORY.rules, "", "model."),
            *_masks(
                *("depthwise_conv", "layernorm", "pointwise_conv", "norm"),
                ("mlp.fc1", "mlp.fc2"),
                "segmentation_bias",
            ),
        ),
    ),
)

ORIGINAL = Naming(conventions.ORIGINAL, RF_DETR.rules)
"""The same in a file of the authors'."""
