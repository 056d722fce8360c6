"""Settings of detection transformers in transformers that tensors do not determine."""

from typing import Annotated

from pydantic import Field

from zoo.common.fields import Model

EPS_OF_TRANSFORMERS = 1e-5
"""Of the projector's norms, where `config.json` says nothing."""

Count = Annotated[int, Field(ge=1, le=1024)]


class DetectionBackbone(Model):
    """Settings of the backbone that no tensor tells."""

    out_indices: tuple[Count, ...] = ()
    num_windows: Count | None = None
    window_block_indexes: tuple[Annotated[int, Field(ge=0, lt=1024)], ...] | None = None


class DetectionSettings(Model):
    """Settings of transformers' classes that no tensor tells."""

    decoder_self_attention_heads: Count | None = None
    decoder_cross_attention_heads: Count | None = None
    layer_norm_eps: Annotated[float, Field(gt=0, lt=1)] = EPS_OF_TRANSFORMERS
    mask_downsample_ratio: Count = 4
    backbone_config: DetectionBackbone


class DeimBackbone(Model):
    """Settings of its backbone."""

    out_indices: tuple[Count, ...] = ()
    apply_layernorm: bool = True


class DeimSettings(Model):
    """Settings of transformers' class that no tensor tells."""

    num_queries: Count = 300
    encoder_attention_heads: Count = 8
    decoder_attention_heads: Count = 8
    decoder_n_points: Count | tuple[Count, ...] = 4
    eval_size: tuple[int, int] | None = None
    backbone_config: DeimBackbone = DeimBackbone()
