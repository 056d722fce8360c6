"""Checkpoints of one's own: a network of the zoo with other classes, or in other sizes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from weights import Checkpoint
from weights.containers import npy
from weights.errors import MappingError
from weights.load import fits
from weights.mapping import Naming, leaf_shape
from weights.views import Parts, choose_prefix, views_of
from zoo.architectures.config import Config
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.position_config import RopePeriods
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.backbone_config import OnBackbone
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.bodies import body
from zoo.checkpoints.given_checkpoint import open_given
from zoo.checkpoints.own_name import with_own_facts
from zoo.checkpoints.settings.beside import CONFIG, Settings, read_settings, with_temperature
from zoo.checkpoints.settings.huggingface import below, transformers_kind
from zoo.checkpoints.settings.transformers_kinds import Kind
from zoo.checkpoints.sizes import read_sizes
from zoo.checkpoints.use import tell_use
from zoo.checkpoints.weights_argument import Choice, Given, Seed
from zoo.errors import BadRequest

Gelu = Literal["gelu", "gelu_tanh"]
Activated = TypeVar("Activated", Gelu, Literal["gelu", "gelu_tanh", "relu"])

ACTIVATIONS: dict[str, Gelu] = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}
"""transformers' words for what the configurations call otherwise."""

FREE_SETTINGS = (
    *("image_size", "layerscale_value", "layer_scale_init_value"),
    *("mlp_ratio", "temperature_init_value"),
    *("pad_token_id", "bos_token_id", "eos_token_id"),
)
"""Settings that change nothing: what training began with, sizes and numbers that are read
otherwise, and words that the tokenizer knows."""


def own_entry(entry: ModelInfo, choice: Choice) -> tuple[ModelInfo, Choice]:
    """An entry with the classes, the pictures' size and the preprocessing of somebody's checkpoint,
    and that opened; as they are where there is no more to read. **Raises** a `WeightsError`."""
    if isinstance(choice, str | Seed):
        return entry, choice
    given = choice if isinstance(choice, Given) else Given(choice.path)
    checkpoint = open_given(given) if isinstance(choice, Given) else choice
    if checkpoint.container == npy.EQUINOX:
        # JAX is imported only where there is a model to build.
        from zoo.checkpoints.load import named

        checkpoint = named(checkpoint)
    checkpoint = with_temperature(checkpoint)
    settings, how = read_settings(checkpoint)
    parts = views_of(checkpoint, not given.without_head)
    alike = [
        each
        for each in readings(entry, parts, settings)
        if body(each[1]) == body(entry.config_for(each[0].name))
    ]
    if not alike:
        return with_own_facts(entry, given), checkpoint
    if len(alike) > 1:
        # JAX is imported only where there is a model to build.
        from zoo.checkpoints.load import model_shapes

        fitting = [each for each in alike if fits(each[0], each[2].tensors, model_shapes(each[1]))]
        alike = fitting or alike
    prefix = choose_prefix(
        [*dict.fromkeys(view.prefix for *_, view in alike)], given.take, given.path
    )
    naming, config, view = next(each for each in alike if each[2].prefix == prefix)
    tell_use(view, naming, config, entry.name, given)
    entry = described(entry, naming, config, settings, how, bool(view.head))
    return with_own_facts(entry, given), view


def described(
    entry: ModelInfo,
    naming: Naming,
    config: Config,
    settings: Settings | None,
    how: Preprocessing | None,
    own_head: bool = False,
) -> ModelInfo:
    """An entry for a network of its architecture in other sizes, or with other classes. **Raises**
    `MappingError` where the settings beside the tensors are about another network."""
    names = settings.class_names if settings and config.classes else ()
    if own_head and len(names) != config.classes:
        names = ()  # those of another head, if of any
    if names and len(names) != config.classes:
        raise MappingError(
            f"{CONFIG} beside the checkpoint names {len(names)} classes, and its classifier has "
            f"{config.classes}: give the settings that were saved with it."
        )
    usual, like_usual = entry.config_for(naming.name), not names or names == entry.class_names
    if settings and naming.name == "huggingface":
        check_settings(config, settings)
    if body(config) != body(usual) or (
        isinstance(config, ViTConfig) and config.classes and not (like_usual and config == usual)
    ):
        config = _as_trained(entry, naming, config)
    if config == usual and like_usual and how in (None, entry.preprocessing):
        return entry
    # JAX is imported only where there is a model to build.
    from zoo.architectures.builder import abstract, count_parameters

    pictures = entry.preprocessing
    if config.native is not None and config.native != usual.native:
        pictures = pictures.at(config.native)
    return replace(
        entry,
        config=config,
        published={},
        preprocessing=how or pictures,
        parameters=count_parameters(abstract(config)),
        labels=names or entry.labels,
        digest="",
    )


def check_settings(config: Config, settings: Settings) -> None:
    """**Raises** `MappingError` where transformers would compute another network."""
    said = settings.words if isinstance(config, TextConfig) else settings.network
    if isinstance(config, OnBackbone | DualConfig):
        said = settings
    _check_alike(said.model_dump(mode="json"), _kind(config).settings(config))


def _kind(config: Config) -> Kind:
    """The class of transformers that a network was trained in, which may have a head of somebody's
    own on it."""
    try:
        return transformers_kind(config)
    except BadRequest:
        return transformers_kind(below(config))


def _check_alike(said: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, ours in wanted.items():
        theirs = said.get(name, ours)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            _check_alike(theirs, ours)
        elif name not in FREE_SETTINGS and theirs != ours:
            raise MappingError(
                f"{CONFIG} beside the checkpoint says that {name} is {ascii(theirs)[:60]}, and the "
                f"zoo's network has {ours}: it has no network for this checkpoint."
            )


def readings(
    entry: ModelInfo,
    parts: Parts,
    settings: Settings | None,
) -> Iterator[tuple[Naming, Config, Checkpoint]]:
    """What the sizes of a checkpoint's parts are in each naming of an entry in which they can be
    told."""
    for naming in entry.readable:
        usual = entry.config_for(naming.name)
        for view in parts(naming):
            if found := read_sizes(usual, partial(leaf_shape, naming, view.tensors)):
                yield naming, settled(found, naming, settings, bool(view.head)), view


def settled(
    config: Config, naming: Naming, settings: Settings | None, own_head: bool = False
) -> Config:
    """With what no tensor tells: from the settings beside them, or what their library does; a head
    of somebody's own takes what the network pools."""
    if isinstance(config, ViTConfig):
        return _settled_vit(config, naming, settings, own_head)
    if isinstance(config, OnBackbone):
        config = replace(config, backbone=_settled_vit(config.backbone, naming, settings))
        return _settled_depth(config, settings) if isinstance(config, DepthConfig) else config
    if isinstance(config, TextConfig):
        return _settled_text(config, settings)
    if isinstance(config, DualConfig):
        vision = _settled_vit(config.vision, naming, settings)
        return replace(config, vision=vision, words=_settled_text(config.words, settings))
    network = settings.network if settings else None
    eps = (network and network.layer_norm_eps) or config.norm_eps
    # All other norms are fixed in transformers.
    last = None if eps == config.norm_eps else eps
    activation = _activation(config.activation, network)
    scores = _scores(config.classes, naming, settings)
    return replace(config, activation=activation, final_norm_eps=last, scores=scores)


def _scores(
    classes: int, naming: Naming, settings: Settings | None
) -> Literal["softmax", "sigmoid", "none"]:
    """What makes answers of logits, as transformers' pipeline for classification does it."""
    problem = settings.problem_type if settings and naming.name == "huggingface" else None
    if problem == "regression":
        return "none"
    alone = naming.name == "huggingface" and classes == 1
    return "sigmoid" if alone or problem == "multi_label_classification" else "softmax"


def _activation(usual: Activated, network: Settings | None) -> Activated | Gelu:
    return ACTIVATIONS.get((network and network.hidden_act) or "", usual)


def _settled_vit(
    config: ViTConfig, naming: Naming, settings: Settings | None, own_head: bool = False
) -> ViTConfig:
    network = settings.network if settings else None
    return replace(
        config,
        activation=_activation(config.activation, network),
        norm_eps=(network and network.layer_norm_eps) or config.norm_eps,
        heads=(network and network.num_attention_heads) or config.heads,
        scores=_scores(config.classes, naming, settings),
        head_tokens=0
        if config.classes and not own_head and _mean_alone(config, naming, settings)
        else config.head_tokens,
    )


def _settled_text(config: TextConfig, settings: Settings | None) -> TextConfig:
    network = settings.words if settings else None
    return replace(
        config,
        activation=_activation(config.activation, network),
        norm_eps=(network and network.layer_norm_eps) or config.norm_eps,
        heads=(network and network.num_attention_heads) or config.heads,
    )


def _settled_depth(config: DepthConfig, settings: Settings | None) -> DepthConfig:
    """With the layers that are read, and the unit."""
    if settings is None or settings.backbone_config is None:
        return config
    read = settings.backbone_config.out_indices
    layers = (read[0], read[1], read[2], read[3]) if len(read) == 4 else config.layers
    metres = settings.max_depth if settings.depth_estimation_type == "metric" else None
    return replace(config, layers=layers, max_depth=metres)


def _as_trained(entry: ModelInfo, naming: Naming, config: Config) -> Config:
    """With what the library in which somebody trained a network does otherwise than the authors:
    timm has another GELU in some networks, transformers interpolates positions by its own rule."""
    if isinstance(config, ViTConfig) and (library := entry.libraries.get(naming.name)):
        config = replace(config, activation=library.activation)
    if naming.name != "huggingface":
        return config
    kind = _kind(config)
    if isinstance(config, OnBackbone):
        return replace(config, backbone=_interpolated(config.backbone, kind))
    if isinstance(config, DualConfig):
        return replace(config, vision=_interpolated(config.vision, kind))
    return _interpolated(config, kind) if isinstance(config, ViTConfig) else config


def _interpolated(config: ViTConfig, kind: Kind) -> ViTConfig:
    """With positions as a class of transformers brings them to another size."""
    where = config.positions
    if where is None:
        return config
    return replace(config, positions=replace(where, antialias=kind.antialias, offset=0.0))


def _mean_alone(config: ViTConfig, naming: Naming, settings: Settings | None) -> bool:
    """Whether a classifier takes the mean of the patches where another network's takes what was
    pooled: transformers' on SigLIP, and timm's on DINOv3 unless it was told otherwise."""
    if naming.name == "timm":
        pool = settings.global_pool if settings else ""
        return isinstance(config.rope, RopePeriods) and pool != "token"
    return config.pool == "attention" and config.head_tokens is None
