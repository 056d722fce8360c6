"""Networks of transformers under heads that users put on them, as PyTorch computes both.

The kinds of heads come from the linear evaluations of DINO, DINOv2 and MAE, and from public
training scripts based on them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

WIDTH, CLASSES = 48, 5
SIZES = {
    **{"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4},
    "patch_size": 8,
}
PLAIN = {**SIZES, "image_size": 32, "intermediate_size": 80}
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 24, 32, WIDTH]}
WINDOWS = {
    **{"embed_dim": 12, "depths": [1, 1, 2], "num_heads": [2, 3, 4], "window_size": 2},
    **{"image_size": 64, "patch_size": 4},
}


@dataclass(frozen=True)
class Family:
    """A network of transformers: its class, its settings, and what a test needs to know about it.

    `called` is the zoo's name of the architecture, `prefix` the number of tokens in front of the
    patches, and `side` the side of its pictures. `vectors` are the pooled vectors of the network's
    width that a head may take.
    """

    kind: str
    settings: dict[str, Any]
    called: str
    prefix: int = 1
    vectors: tuple[str, ...] = ("token", "mean")
    side: int = 32

    def network(self) -> Any:
        """Return the seeded network, in which every parameter affects the output."""
        torch.manual_seed(7)
        kind = getattr(transformers, self.kind)
        options = {"add_pooling_layer": False} if self.kind in WITH_POOLER else {}
        return seeded(kind(kind.config_class(**self.settings), **options))


OF_MAP = "mean of the last map"
"""Name of the vector that networks with feature maps pool."""

WITH_POOLER = ("ViTModel", "DeiTModel")
"""Classes that would add an untrained pooler by default."""

FAMILIES = {
    "ViT": Family("ViTModel", PLAIN, "vit"),
    "DeiT": Family("DeiTModel", PLAIN, "deit", prefix=2),
    "DINOv2": Family("Dinov2Model", {**PLAIN, "mlp_ratio": 2}, "dinov2"),
    "DINOv2 with registers": Family(
        *("Dinov2WithRegistersModel", {**PLAIN, "mlp_ratio": 2, "num_register_tokens": 3}),
        *("dinov2", 4),
    ),
    "DINOv3": Family("DINOv3ViTModel", {**PLAIN, "num_register_tokens": 2}, "dinov3", prefix=3),
    "SigLIP": Family("SiglipVisionModel", PLAIN, "siglip2", 0, ("map", "mean")),
    "CLIP": Family("CLIPVisionModel", {**PLAIN, "projection_dim": 24}, "clip"),
    "ConvNeXt": Family("ConvNextModel", STAGES, "convnext", vectors=(OF_MAP,)),
    "ConvNeXt V2": Family("ConvNextV2Model", STAGES, "convnext", vectors=(OF_MAP,)),
    "Swin V2": Family(*("Swinv2Model", WINDOWS, "swinv2"), vectors=(OF_MAP,), side=64),
}
"""Networks by the names that users know them by."""


def seeded(module: Any) -> Any:
    """Set seeded parameters and statistics, each of which affects the output. Return the module."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in module.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            if value.ndim < 2 or "grn" in name:
                value.add_(0.3 * noise)
            else:
                value.copy_(noise / value[0].numel() ** 0.5)
        for name, value in module.named_buffers():
            if "running" in name:
                value.add_(torch.rand(value.shape, generator=generator))
    return module.eval()


class Features(dict[str, torch.Tensor]):
    """The pooled vectors of pictures by name, and the `tokens`."""

    @classmethod
    def of(cls, family: Family, network: Any, pictures: torch.Tensor) -> "Features":
        """Return the features that the network computes of pictures."""
        outputs = network(pictures)
        tokens = outputs.last_hidden_state
        if family.vectors == (OF_MAP,):
            tokens = tokens.flatten(2).transpose(1, 2) if tokens.ndim == 4 else tokens
            return cls({family.vectors[0]: outputs.pooler_output, "tokens": tokens})
        pooled = outputs.pooler_output if family.called in ("siglip2", "clip") else tokens[:, 0]
        mean = tokens[:, family.prefix :].mean(dim=1)
        return cls({family.vectors[0]: pooled, "mean": mean, "tokens": tokens})


class Head(nn.Module):
    """A head: a function `take` from features to the head's input, followed by layers."""

    def __init__(self, take: Callable[[Features], torch.Tensor], **layers: nn.Module):
        super().__init__()
        self.take = take
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, features: Features) -> torch.Tensor:
        value = self.take(features)
        for layer in self.children():
            value = layer(value)
        return value


class ConvHead(Head):
    """A convolution of 1 x 1 on a vector."""

    def forward(self, features: Features) -> torch.Tensor:
        (layer,) = self.children()
        return layer(self.take(features)[:, :, None, None])[:, :, 0, 0]


class AttentionHead(Head):
    """Attention from the first token to all tokens, followed by a linear layer."""

    def forward(self, features: Features) -> torch.Tensor:
        pool, layer = self.children()
        tokens = features["tokens"]
        return layer(pool(tokens[:, :1], tokens, tokens)[0][:, 0])


class SeveralHeads(Head):
    """Several layers on the same input, whose outputs are concatenated."""

    def forward(self, features: Features) -> torch.Tensor:
        value = self.take(features)
        return torch.cat([layer(value) for layer in self.children()], dim=-1)


class Scaled(Head):
    """A linear layer whose outputs are multiplied by a trained scalar."""

    def __init__(self, take: Callable[[Features], torch.Tensor], **layers: nn.Module):
        super().__init__(take, **layers)
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, features: Features) -> torch.Tensor:
        return self.scale * super().forward(features)


def linear(width: int = WIDTH, classes: int = CLASSES) -> nn.Linear:
    return nn.Linear(width, classes)


def first(family: Family) -> Callable[[Features], torch.Tensor]:
    """Return the function that takes the first of a family's vectors."""
    return lambda features: features[family.vectors[0]]


def both(features: Features) -> torch.Tensor:
    """Concatenate the class token and the mean of the patches."""
    return torch.cat([features["token"], features["mean"]], dim=-1)


Make = Callable[[Family, str], Head]
"""A function from a family and the name of the linear layer to a head."""

LINEAR_HEADS: dict[str, Make] = {
    "a linear layer on the class token": lambda family, name: Head(
        lambda features: features["token"], **{name: linear()}
    ),
    "a linear layer on the mean of the patches": lambda family, name: Head(
        lambda features: features["mean"], **{name: linear()}
    ),
    "a linear layer on what attention pools": lambda family, name: Head(
        lambda features: features["map"], **{name: linear()}
    ),
    "a linear layer on the class token and the mean of the patches": lambda family, name: Head(
        both, **{name: linear(2 * WIDTH)}
    ),
    "a linear layer on the mean of the last map": lambda family, name: Head(
        first(family), **{name: linear()}
    ),
    "a convolution of 1 x 1 on what is pooled": lambda family, name: ConvHead(
        first(family), **{name: nn.Conv2d(WIDTH, CLASSES, 1)}
    ),
    "dropout and a linear layer in a sequence": lambda family, name: Head(
        first(family), **{name: nn.Sequential(nn.Dropout(), linear())}
    ),
}
"""Heads that consist of one linear layer."""

OTHER_HEADS: dict[str, Make] = {
    "a norm and a linear layer": lambda family, name: Head(
        first(family), norm=nn.LayerNorm(WIDTH), **{name: linear()}
    ),
    "BatchNorm and a linear layer": lambda family, name: Head(
        first(family), bn=nn.BatchNorm1d(WIDTH), **{name: linear()}
    ),
    "BatchNorm without parameters, and a linear layer": lambda family, name: Head(
        first(family), bn=nn.BatchNorm1d(WIDTH, affine=False), **{name: linear()}
    ),
    "a hidden layer of the same width": lambda family, name: Head(
        first(family), hidden=linear(WIDTH, WIDTH), act=nn.Tanh(), **{name: linear()}
    ),
    "a hidden layer of another width": lambda family, name: Head(
        first(family), fc1=linear(WIDTH, 32), act=nn.ReLU(), **{name: linear(32)}
    ),
    "a projector and a linear layer": lambda family, name: Head(
        first(family), projector=linear(WIDTH, WIDTH), **{name: linear()}
    ),
    "two layers in a sequence": lambda family, name: Head(
        first(family), **{name: nn.Sequential(linear(WIDTH, 9), nn.ReLU(), linear(9))}
    ),
    "attention and a linear layer": lambda family, name: AttentionHead(
        first(family), pool=nn.MultiheadAttention(WIDTH, 4, batch_first=True), **{name: linear()}
    ),
    "two heads": lambda family, name: SeveralHeads(
        first(family), age=linear(WIDTH, 1), gender=linear(WIDTH, 2)
    ),
    "a linear layer and a trained scale": lambda family, name: Scaled(
        first(family), **{name: linear()}
    ),
}
"""Heads with further trained tensors beside the linear layer."""

HEADS = LINEAR_HEADS | OTHER_HEADS
