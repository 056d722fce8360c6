"""What networks have in common that read the patches of a vision transformer."""

import equinox as eqx

from zoo.architectures.vit.vision_transformer import VisionTransformer


class Backboned(eqx.Module):
    """A network on a backbone, whose answers are of the image and not tokens."""

    backbone: eqx.AbstractVar[VisionTransformer]

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.backbone.stride

    @property
    def prefix_tokens(self) -> int:
        """No tokens are given, so none is in front of the patches."""
        return 0

    @property
    def num_hidden_states(self) -> int:
        """No layers can be asked for."""
        return 0
