"""From a configuration to a model: the one place where its words and numbers become layers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, PRNGKeyArray, Shaped

from zoo.architectures.config import Config
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.convnext.convnext_network import ConvNeXt, ConvNeXtBlock
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.depth.depth_network import DepthAnything, DepthDecoder
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.dual.dual_encoder import DualEncoder
from zoo.architectures.masks.eomt import Eomt
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.parts.block import Block
from zoo.architectures.parts.feed_forward import MakeFeedForward, Mlp, SwiGlu, SwiGluFused
from zoo.architectures.parts.layers import ACTIVATIONS, Norm
from zoo.architectures.parts.learned_positions import LearnedPositionEmbedding
from zoo.architectures.parts.output import Returned, by_name
from zoo.architectures.parts.pool import (
    AttentionPool,
    Pool,
    class_token,
    mean_of_patches,
    token_and_mean,
)
from zoo.architectures.parts.position_config import RopePeriods
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.architectures.parts.rope import AxialRoPE, GridRoPE, RoPE
from zoo.architectures.parts.top_config import TopBlocks
from zoo.architectures.segmenter.patch_classifier import Segmenter
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.text.text_transformer import TextTransformer, text_maker
from zoo.architectures.vit.vision_transformer import VisionTransformer
from zoo.architectures.vit.vit_config import ViTConfig

Features: TypeAlias = VisionTransformer | ConvNeXt
"""Networks that give features, and logits if they are classifiers."""

Model: TypeAlias = Features | DepthAnything | Eomt | Segmenter | TextTransformer | DualEncoder

NORMS: Mapping[str, Callable[..., Norm]] = {"layer": eqx.nn.LayerNorm, "rms": eqx.nn.RMSNorm}
POOLS: Mapping[str | None, Pool] = {
    "token": class_token,
    "mean": mean_of_patches,
    "both": token_and_mean,
}


def build_model(
    config: Config,
    *,
    name: str = "",
    preprocessing: Preprocessing | None = None,
    labels: tuple[str, ...] = (),
    key: PRNGKeyArray,
) -> Model:
    """A model with initial parameters drawn from `key`.

    `name`, `preprocessing` and `labels` are what the model knows of itself.
    """
    return _maker(config)(
        name=name, preprocessing=preprocessing, labels=labels, config=config, key=key
    )


def _maker(config: Config) -> Callable[..., Model]:
    if isinstance(config, ViTConfig):
        return _vit(config)
    if isinstance(config, DualConfig):
        return partial(
            DualEncoder,
            _vit(config.vision),
            text_maker(config.words),
            bias=config.bias,
            temperature=config.temperature,
        )
    if isinstance(config, TextConfig):
        return text_maker(config)
    if isinstance(config, ConvNeXtConfig):
        return _convnext(config)
    if isinstance(config, DepthConfig):
        return _depth(config)
    return _masks(config) if isinstance(config, MaskConfig) else _segmenter(config)


def _vit(config: ViTConfig) -> partial[VisionTransformer]:
    norm = partial(NORMS[config.norm], eps=config.norm_eps, use_bias=config.norm_bias)
    # What blocks and attention pooling have in common.
    shared: dict[str, Any] = {
        "heads": config.heads,
        "hidden": config.hidden,
        "ffn": _feed_forward(config),
        "norm": norm,
    }
    block = partial(
        Block,
        **shared,
        qkv_bias=config.qkv_bias,
        qk_norm=norm if config.qk_norm else None,
        layer_scale=config.layer_scale,
    )
    where = config.positions
    return partial(
        VisionTransformer,
        config.dim,
        config.depth,
        block,
        patch_size=config.patch_size,
        cls_token=config.cls_token,
        registers=config.registers,
        mask_token=config.mask_token,
        positions=partial(LearnedPositionEmbedding, **asdict(where)) if where else None,
        rope=_rope(config),
        norm=norm,
        untied_norms=config.untied_norms,
        top=(_top_block(config.heads, config.top),) * config.top.depth if config.top else (),
        top_norm=partial(eqx.nn.LayerNorm, eps=config.top.norm_eps) if config.top else None,
        pool=POOLS.get(config.pool),
        attn_pool=partial(AttentionPool, **shared) if config.pool == "attention" else None,
        classes=config.classes,
        head_tokens=config.head_tokens,
    )


def _top_block(heads: int, config: TopBlocks) -> Callable[..., Block]:
    return partial(
        Block,
        heads=heads,
        hidden=config.hidden,
        ffn=SwiGlu,
        norm=partial(eqx.nn.LayerNorm, eps=config.norm_eps),
        qkv_bias=False,
        qk_norm=None,
        layer_scale=1e-5,
    )


def _convnext(config: ConvNeXtConfig) -> partial[ConvNeXt]:
    activation = ACTIVATIONS[config.activation]
    block = partial(
        ConvNeXtBlock,
        activation=activation,
        layer_scale=config.layer_scale,
        response_norm=config.response_norm,
    )
    return partial(
        ConvNeXt,
        config.depths,
        config.dims,
        block,
        norm=partial(eqx.nn.LayerNorm, eps=config.norm_eps),
        final_norm=partial(eqx.nn.LayerNorm, eps=config.final_norm_eps or config.norm_eps),
        classes=config.classes,
    )


def _depth(config: DepthConfig) -> partial[DepthAnything]:
    decoder = partial(
        DepthDecoder,
        config.dim,
        config.channels,
        config.fused,
        hidden=config.hidden,
        max_depth=config.max_depth,
    )
    return partial(DepthAnything, _vit(config.backbone), decoder, layers=config.layers)


def _masks(config: MaskConfig) -> partial[Eomt]:
    return partial(
        Eomt,
        _vit(config.backbone),
        config.dim,
        queries=config.queries,
        query_blocks=config.query_blocks,
        classes=config.classes,
        upscalings=config.upscalings,
        activation=ACTIVATIONS[config.backbone.activation],
    )


def _segmenter(config: SegmenterConfig) -> partial[Segmenter]:
    return partial(
        Segmenter,
        _vit(config.backbone),
        config.dim,
        layers=config.layers,
        classes=config.classes,
    )


def _feed_forward(config: ViTConfig) -> MakeFeedForward:
    if config.ffn == "mlp":
        return partial(Mlp, activation=ACTIVATIONS[config.activation])
    return SwiGlu if config.ffn == "swiglu" else SwiGluFused


def _rope(config: ViTConfig) -> RoPE | None:
    make = AxialRoPE if isinstance(config.rope, RopePeriods) else GridRoPE
    return make(config.head_dim, **asdict(config.rope)) if config.rope else None


@cache
def abstract(
    config: Config,
    *,
    name: str = "",
    preprocessing: Preprocessing | None = None,
    labels: tuple[str, ...] = (),
) -> Model:
    """A model whose leaves are `jax.ShapeDtypeStruct`s: no memory, no random numbers."""
    make = partial(build_model, config, name=name, preprocessing=preprocessing, labels=labels)
    return eqx.filter_eval_shape(lambda key: make(key=key), jr.key(0))


def batched(
    model: Callable[..., Any],
    *inputs: Shaped[Array, "..."],
    layers: Sequence[int] = (),
    as_maps: bool = False,
    outputs: Sequence[str] = (),
) -> Any:
    """The function that an exported file computes: a network's outputs by their names in the file,
    or what a model gives.

    **Arguments:** a model, and batches of what it takes: of images `[batch, 3, H, W]`, of texts and
    of what is no padding in them `[batch, tokens]`. `outputs` are some of `output_choices`; by
    default what the network gives unasked.
    """
    if not isinstance(model, Model):
        return jax.vmap(lambda image: model(image))(*inputs)
    if isinstance(model, DualEncoder):
        return by_name(model(*inputs), layers, outputs)  # every image meets every text
    run = partial(_run, model, layers=layers, as_maps=as_maps, attentions=bool(outputs))
    return by_name(jax.vmap(run)(*inputs), layers, outputs)


def _run(
    model: Model,
    *inputs: Shaped[Array, "..."],
    layers: Sequence[int],
    as_maps: bool,
    attentions: bool,
) -> Returned:
    """A network's output, with what only some can be asked for."""
    if isinstance(model, DualEncoder):
        return model(*inputs)
    if isinstance(model, TextTransformer):
        return model(*inputs)
    (given,) = inputs
    if isinstance(model, VisionTransformer):
        return model(given, layers, as_maps=as_maps, attentions=attentions)
    return model(given, layers, as_maps=as_maps) if isinstance(model, ConvNeXt) else model(given)


def output_choices(config: Config, layers: Sequence[int] = ()) -> list[str]:
    """Fields of all outputs that a network can give where those layers are asked for."""
    run = partial(_run, layers=layers, as_maps=False, attentions=True)
    found = eqx.filter_eval_shape(run, abstract(config), *_least(config))
    return [field for field, value in found._asdict().items() if jax.tree.leaves(value)]


def _least(config: Config) -> list[jax.ShapeDtypeStruct]:
    """A small image, a text, or a batch of both, as a network takes them."""
    sides = (4 * config.stride,) * 2
    image = jax.ShapeDtypeStruct((3, *sides), "float32")
    if not isinstance(config, TextConfig | DualConfig):
        return [image]
    text = jax.ShapeDtypeStruct((config.words.tokens,), "int32")
    texts = [text] * len(config.words.takes)
    if isinstance(config, TextConfig):
        return texts
    return [jax.ShapeDtypeStruct((1, *each.shape), each.dtype) for each in (image, *texts)]


def networks_in(model: object) -> list[Model]:
    """The networks that a module is or holds."""
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, Model))
    return [part for part in parts if isinstance(part, Model)]


def count_parameters(model: object) -> int:
    """How many numbers training adjusts: every array leaf but those of rotary positions."""
    leaves = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, RoPE))
    return sum(leaf.size for leaf in leaves if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct))
