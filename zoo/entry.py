"""What one entry of the registry holds. Plain data: importing this costs no JAX."""

from dataclasses import dataclass
from typing import Literal

from weights.hub import HubFile


@dataclass(frozen=True)
class ViTConfig:
    """Hyperparameters of a DINOv3-style vision transformer.

    `hidden` is the width between the two layers of the feed-forward network, already rounded as
    the checkpoint has it. `untied_norms` says that the checkpoint carries a second final norm,
    `local_cls_norm`, which only training uses.
    """

    dim: int
    depth: int
    heads: int
    hidden: int
    ffn: Literal["mlp", "swiglu"] = "mlp"
    qkv_bias: bool = True
    untied_norms: bool = False
    patch: int = 16
    registers: int = 4
    norm_eps: float = 1e-5
    layer_scale: float = 1e-5
    rope_base: float = 100.0

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.dim // self.heads

    @property
    def prefix(self) -> int:
        """Tokens in front of the patches: the class token and the registers."""
        return 1 + self.registers


@dataclass(frozen=True)
class Preprocessing:
    """From 8-bit RGB to `pixel_values`, in this order: rescale, resize, normalise.

    `resample` is bilinear with antialiasing, straight to height x width without keeping the
    aspect ratio, on floating-point values (nothing is rounded to 8 bits in between).
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    size: tuple[int, int] = (224, 224)
    rescale: float = 1 / 255
    resample: Literal["bilinear"] = "bilinear"
    antialias: bool = True


@dataclass(frozen=True)
class Licence:
    """Terms under which the weights are published, and the pages that say so."""

    name: str
    page: str
    download: str


@dataclass(frozen=True)
class ModelInfo:
    """One model of the zoo.

    `checkpoint` is the name of the published file; `digest` its sha256's first 8 hex digits,
    which the name carries too. `archive` is Equimo's file, `repository` holds transformers' files
    on the hub, and `hub` are files that may be downloaded. `parameters` counts what training
    adjusts, the mask token and the unused norm of `untied_norms` included, the rotary periods
    not.
    """

    name: str
    aliases: tuple[str, ...]
    config: ViTConfig
    preprocessing: Preprocessing
    licence: Licence
    checkpoint: str
    digest: str
    archive: str
    repository: str
    hub: tuple[HubFile, ...]
    parameters: int
    source: str
