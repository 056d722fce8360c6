"""Names of tensors of segmentation networks: EoMT in transformers, and Meta's linear classifiers of
patches."""

from weights.mapping import Naming, Rule, prefix_rules, same_names
from weights.namings import conventions, huggingface_names, meta_names
from weights.transforms import DECONVOLUTION, NEVER_OR_ALWAYS, PER_CHANNEL, POINTWISE

_LAYER = "layers.{i}."
_UPSCALING = "upscale_block.block.{i}."

EOMT = Naming(
    conventions.HUGGINGFACE,
    (
        *prefix_rules(huggingface_names.dinov3_rules(_LAYER, "layernorm."), "backbone.", ""),
        Rule("queries", ("query.weight",)),
        Rule("upscale.{i}.conv1.weight", (_UPSCALING + "conv1.weight",), DECONVOLUTION),
        Rule("upscale.{i}.conv1.bias", (_UPSCALING + "conv1.bias",), PER_CHANNEL),
        Rule("upscale.{i}.conv2.weight", (_UPSCALING + "conv2.weight",)),
        Rule("upscale.{i}.norm.{p}", (_UPSCALING + "layernorm2d.{p}",)),
        *same_names("mask_head.{layer}.{p}"),
        Rule("class_head.{p}", ("class_predictor.{p}",)),
        Rule("attn_mask_probs", ("attn_mask_probs",), NEVER_OR_ALWAYS),
    ),
    zero=tuple(f"{_LAYER}attention.{part}_proj.bias" for part in "qkv"),
)

_HEAD = "decode_head."

# The head has mmsegmentation's names. Meta publishes it in a file without the backbone.
SEGMENTER = Naming(
    conventions.META,
    (
        *prefix_rules(meta_names.DINOV2_VIT.rules, "backbone.", ""),
        Rule("batch_norm.mean", (_HEAD + "bn.running_mean",)),
        Rule("batch_norm.var", (_HEAD + "bn.running_var",)),
        Rule("batch_norm.{p}", (_HEAD + "bn.{p}",)),
        Rule("head.weight", (_HEAD + "conv_seg.weight",), POINTWISE),
        Rule("head.bias", (_HEAD + "conv_seg.bias",)),
    ),
)
