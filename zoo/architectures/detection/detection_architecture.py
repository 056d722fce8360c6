"""Detection transformers, as everybody asks for them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.answers.answer import Answer, Answered, Outputs, Question, features
from zoo.answers.boxes import THRESHOLD, draw_boxes, post_process_object_detection
from zoo.architectures.architecture import (
    Architecture,
    Beside,
    GivenOutput,
    Shapes,
    TransformersClass,
)
from zoo.architectures.detection.detection_config import DecoderConfig, DetectionConfig
from zoo.architectures.read_shapes import count_numbered, count_rows
from zoo.architectures.vit.vit_settings import dinov2_settings

EPS_OF_TRANSFORMERS = 1e-5
"""Of the projector's norms, where `config.json` says nothing."""


def _network(config: DetectionConfig) -> Callable[..., Any]:
    from zoo.architectures.detection.rf_detr import rf_detr_maker

    return rf_detr_maker(config)


def _sizes(config: DetectionConfig, shapes: Shapes) -> DetectionConfig | None:
    groups = count_numbered(shapes, "proposals.{}.norm.weight")
    classes, dim = shapes("class_head.weight") or (0, 0)
    looks = count_rows(shapes, "blocks.0.cross.weights.weight")
    if not (groups and classes and looks):
        return None
    usual = config.decoder
    heads = _heads(usual, dim)
    decoder = DecoderConfig(
        dim=dim,
        depth=count_numbered(shapes, "blocks.{}.norm1.weight"),
        heads=heads[0],
        sampling_heads=heads[1],
        points=max(1, looks // heads[1]),
        hidden=count_rows(shapes, "blocks.0.mlp.fc1.weight"),
    )
    return replace(
        config,
        decoder=decoder,
        queries=count_rows(shapes, "query_feat") // groups,
        groups=groups,
        classes=classes,
        bottlenecks=count_numbered(shapes, "projector.bottlenecks.{}.0.conv.weight"),
        narrow=count_rows(shapes, "projector.conv1.conv.weight") // 2,
    )


def _heads(usual: DecoderConfig, dim: int) -> tuple[int, int]:
    """Heads of both kinds of attention: of as many channels as usual."""
    pair = (dim * usual.heads // usual.dim, dim * usual.sampling_heads // usual.dim)
    return (pair[0] or 1, pair[1] or 1)


def _unsized(config: DetectionConfig) -> DetectionConfig:
    return replace(
        config,
        decoder=DecoderConfig(0, 0, 0, 0, 0, 0),
        layers=(),
        windows=0,
        queries=0,
        classes=0,
        groups=0,
        bottlenecks=0,
        narrow=0,
    )


def _free(config: DetectionConfig) -> DetectionConfig:
    return replace(config, classes=0, projector_eps=0.0)


def _settled(config: DetectionConfig, beside: Beside) -> DetectionConfig:
    """With the layers that are read, windows, heads, and the epsilon of the projector."""
    settings = beside.settings
    if settings is None or settings.backbone_config is None:
        return config
    heads, sampling = settings.decoder_self_attention_heads, settings.decoder_cross_attention_heads
    own = config.decoder
    looks = own.sampling_heads * own.points
    sampling = sampling or own.sampling_heads
    decoder = replace(
        own,
        heads=heads or own.heads,
        sampling_heads=sampling,
        points=max(1, looks // sampling),
    )
    return replace(
        config,
        decoder=decoder,
        layers=settings.backbone_config.out_indices or config.layers,
        windows=settings.backbone_config.num_windows or config.windows,
        projector_eps=settings.layer_norm_eps or EPS_OF_TRANSFORMERS,
    )


def _settings(config: DetectionConfig) -> dict[str, Any]:
    read = {
        "model_type": "rf_detr_dinov2",
        **dinov2_settings(config.backbone),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "num_windows": config.windows,
        "apply_layernorm": True,
        "reshape_hidden_states": True,
        "use_mask_token": config.backbone.mask_token,
    }
    decoder = config.decoder
    return {
        "backbone_config": read,
        "d_model": decoder.dim,
        "hidden_expansion": config.narrow / decoder.dim,
        "c2f_num_blocks": config.bottlenecks,
        "activation_function": "silu",
        "decoder_activation_function": "relu",
        "decoder_layers": decoder.depth,
        "decoder_ffn_dim": decoder.hidden,
        "decoder_self_attention_heads": decoder.heads,
        "decoder_cross_attention_heads": decoder.sampling_heads,
        "decoder_n_points": decoder.points,
        "num_queries": config.queries,
        "group_detr": config.groups,
        "num_feature_levels": 1,
        "layer_norm_eps": config.projector_eps,
    }


RF_DETR = TransformersClass(
    "RfDetrForObjectDetection",
    "rf_detr",
    _settings,
    antialias=True,
    auto="AutoModelForObjectDetection",
    answers=("logits", "pred_boxes"),
)

BOX_OUTPUTS = frozenset({"logits", "pred_boxes"})


def _answer(config: DetectionConfig, outputs: Outputs, question: Question) -> Answered:
    if not outputs.keys() >= BOX_OUTPUTS:
        return features(outputs)
    least = THRESHOLD if question.threshold is None else question.threshold
    boxes = post_process_object_detection(outputs, question.size, question.fed, least)
    answers = tuple(Answer(question.names[box.label_id], box.score) for box in boxes)
    picture = question.picture
    drawing = None if picture is None else draw_boxes(picture, boxes, question.names)
    return Answered("boxes", answers, drawing, boxes=tuple(box.corners for box in boxes))


def _outputs(config: DetectionConfig, pooler: str) -> dict[str, GivenOutput]:
    queries = config.queries
    return {
        "logits": GivenOutput(
            f"[batch_size, {queries}, {config.classes}]",
            f"of each of {queries} things that there may be how much it is of each class, before "
            "a sigmoid; id2label in config.json names the classes",
        ),
        "pred_boxes": GivenOutput(
            f"[batch_size, {queries}, 4]",
            "where it is: centre (x, y), width and height, as shares of the picture's sides; "
            "zoo.answers.boxes makes boxes in pixels of both",
        ),
    }


DETECTION = Architecture(
    config=DetectionConfig,
    network=_network,
    purpose=lambda config: (
        "Finds things in a picture, each in a box, of {classes:,} classes{such}."
    ),
    parts=("backbone",),
    sizes=_sizes,
    free=_free,
    unsized=_unsized,
    settled=_settled,
    below=lambda config: config.backbone,
    transformers=lambda config: RF_DETR,
    classes=(RF_DETR,),
    exact=("pred_boxes",),
    outputs=_outputs,
    answer=_answer,
    page_draws=lambda config: BOX_OUTPUTS,
)
