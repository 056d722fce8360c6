"""Names of RF-DETR's tensors in its authors' files. The files of transformers (5.24) have the same
names."""

from dataclasses import replace

from weights.mapping import Naming, Rule, prefix_rules
from weights.namings import conventions, huggingface_names
from weights.transforms import PER_CHANNEL


def linear_layers(leaf: str, key: str) -> Rule:
    """Return the rule that maps the tensors of consecutive linear layers to leaves of the model.
    `leaf` is their path in the model, and `key` their name in the file."""
    return Rule(f"{leaf}.layers.{{n}}.{{p}}", (f"{key}.layers.{{n}}.{{p}}",))


def _projector(prefix: str, convs: tuple[str, str], norm: str, bottleneck: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of RF-DETR's projector to leaves of the model.

    **Arguments:**

    - `prefix`: the prefix of the projector's names in the file.
    - `convs`: the names of its two outer convolutions, and of the two of a bottleneck.
    - `norm`: the name of the norm after a convolution.
    - `bottleneck`: the name of the bottlenecks.
    """
    outer_rules = (
        rule
        for number, conv in enumerate(convs, start=1)
        for rule in (
            Rule(f"projector.conv{number}.conv.weight", (f"{prefix}{conv}.conv.weight",)),
            Rule(f"projector.conv{number}.norm.{{p}}", (f"{prefix}{conv}.{norm}.{{p}}",)),
        )
    )
    bottleneck_rules = (
        rule
        for number, conv in enumerate(convs)
        for rule in (
            Rule(
                f"projector.bottlenecks.{{i}}.{number}.conv.weight",
                (f"{prefix}{bottleneck}.{{i}}.{conv}.conv.weight",),
            ),
            Rule(
                f"projector.bottlenecks.{{i}}.{number}.norm.{{p}}",
                (f"{prefix}{bottleneck}.{{i}}.{conv}.{norm}.{{p}}",),
            ),
        )
    )
    return (*outer_rules, *bottleneck_rules)


def sampling_points(cross: str) -> tuple[Rule, ...]:
    """Return the rules for two layers of attention to points of a map: those that compute the
    offsets and the weights of the points. `cross` is the prefix of the attention's names in the
    file."""
    return (
        Rule("blocks.{i}.cross.offsets.{p}", (f"{cross}sampling_offsets.{{p}}",)),
        Rule("blocks.{i}.cross.weights.{p}", (f"{cross}attention_weights.{{p}}",)),
    )


def _cross_attention(layer: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of attention to points of a map to leaves of the model.
    `layer` is the prefix of a block's names in the file."""
    cross = f"{layer}cross_attn."
    return (
        *sampling_points(cross),
        Rule("blocks.{i}.cross.value.{p}", (f"{cross}value_proj.{{p}}",)),
        Rule("blocks.{i}.cross.proj.{p}", (f"{cross}output_proj.{{p}}",)),
    )


def _proposals(prefix: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of the layers that propose boxes to leaves of the
    model. Each group of queries has its own layers. `prefix` is the prefix of their names in the
    file."""
    return (
        Rule("proposals.{i}.proj.{p}", (f"{prefix}enc_output.{{i}}.{{p}}",)),
        Rule("proposals.{i}.norm.{p}", (f"{prefix}enc_output_norm.{{i}}.{{p}}",)),
        Rule("proposals.{i}.classes.{p}", (f"{prefix}enc_out_class_embed.{{i}}.{{p}}",)),
        linear_layers("proposals.{i}.boxes", f"{prefix}enc_out_bbox_embed.{{i}}"),
    )


_HEADS = (Rule("class_head.{p}", ("class_embed.{p}",)), linear_layers("box_head", "bbox_embed"))


def _convolution(leaf: str, key: str) -> tuple[Rule, ...]:
    """Return the rules that map the kernel and the bias of a convolution to leaves of the model.
    `leaf` is its path in the model, and `key` its name in the file."""
    return (
        Rule(f"{leaf}.weight", (f"{key}.weight",)),
        Rule(f"{leaf}.bias", (f"{key}.bias",), PER_CHANNEL),
    )


def _mask_rules(
    conv: str, norm: str, linear: str, query_norm: str, layers: tuple[str, str], bias: str
) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of the head for masks to leaves of the model.

    The arguments are the parts of names that differ between files and the module in memory.

    **Arguments:**

    - `conv`, `norm`, `linear`: the names of a block's layers.
    - `query_norm`, `layers`: the names of the norm and of the two linear layers for queries.
    - `bias`: the name of the bias of masks.
    """
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

_MODEL_M = "model."
_LAYER_M = "model.decoder.layers.{i}."
_PROJECTOR_M = "model.backbone.projector."

_IN_MEMORY = Naming(
    conventions.HUGGINGFACE,
    (
        *prefix_rules(
            huggingface_names.dinov2_rules(huggingface_names.IN_MEMORY, (), "down_proj"),
            "backbone.",
            "model.backbone.backbone.",
        ),
        *_projector(f"{_PROJECTOR_M}projector_layer.", ("conv1", "conv2"), "norm", "bottlenecks"),
        Rule("projector.norm.{p}", (f"{_PROJECTOR_M}layer_norm.{{p}}",)),
        *_proposals(_MODEL_M),
        Rule("query_feat", (f"{_MODEL_M}query_feat.weight",)),
        Rule("query_boxes", (f"{_MODEL_M}reference_point_embed.weight",)),
        linear_layers("positions", "model.decoder.ref_point_head"),
        *huggingface_names.qkv_rules(tuple(f"{_LAYER_M}self_attn.{part}_proj" for part in "qkv")),
        Rule("blocks.{i}.attn.proj.{p}", (f"{_LAYER_M}self_attn.o_proj.{{p}}",)),
        *_cross_attention(_LAYER_M),
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
        # Only training uses the mask token. Some of the authors' files do not contain it.
        Rule("backbone.mask_token", ("backbone.0.encoder.encoder.embeddings.mask_token?",)),
        *prefix_rules(_BACKBONE.rules, "backbone.", "backbone.0.encoder.encoder."),
        *_projector(f"{_STAGE}0.", ("cv1", "cv2"), "bn", "m"),
        Rule("projector.norm.{p}", (f"{_STAGE}1.{{p}}",)),
        *_proposals("transformer."),
        Rule("query_feat", ("query_feat.weight",)),
        Rule("query_boxes", ("refpoint_embed.weight",)),
        linear_layers("positions", "transformer.decoder.ref_point_head"),
        Rule("blocks.{i}.attn.qkv.{p}", (f"{_LAYER}self_attn.in_proj_{{p}}",)),
        Rule("blocks.{i}.attn.proj.{p}", (f"{_LAYER}self_attn.out_proj.{{p}}",)),
        *_cross_attention(_LAYER),
        Rule("blocks.{i}.mlp.fc1.{p}", (f"{_LAYER}linear1.{{p}}",)),
        Rule("blocks.{i}.mlp.fc2.{p}", (f"{_LAYER}linear2.{{p}}",)),
        Rule("blocks.{i}.norm{n}.{p}", (f"{_LAYER}norm{{n}}.{{p}}",)),
        Rule("norm.{p}", ("transformer.decoder.norm.{p}",)),
        *_HEADS,
        *prefix_rules(
            _mask_rules("dwconv", "norm", "pwconv1", "norm_in", ("layers.0", "layers.2"), "bias"),
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
            *prefix_rules(_IN_MEMORY.rules, "", "model."),
            *_mask_rules(
                *("depthwise_conv", "layernorm", "pointwise_conv", "norm"),
                ("mlp.fc1", "mlp.fc2"),
                "segmentation_bias",
            ),
        ),
    ),
)

ORIGINAL = Naming(conventions.ORIGINAL, RF_DETR.rules)
"""Naming of the authors' files."""
