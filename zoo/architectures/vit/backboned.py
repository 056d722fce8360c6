"""What networks have in common that read the patches of a vision transformer."""

import equinox as eqx

from zoo.architectures.base import Network
from zoo.architectures.vit.vision_transformer import VisionTransformer


class Backboned(Network):
    """A network on a backbone, whose answers are of the image and not tokens."""

    backbone: eqx.AbstractVar[VisionTransformer]

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.backbone.stride
