"""What transformers' settings of DEIMv2 say that no tensor tells."""

from typing import Annotated

from pydantic import Field

from zoo.common.fields import Model

Count = Annotated[int, Field(ge=1, le=1024)]


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
