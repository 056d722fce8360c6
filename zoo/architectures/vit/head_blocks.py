"""Blocks on top of a vision transformer: plain data without JAX."""

from dataclasses import dataclass

from zoo.architectures.common_config import DEEPEST, MOST


@dataclass(frozen=True)
class HeadBlocks:
    """Blocks behind the final norm of a vision transformer that was trained before: dino.txt's.

    They have gates of `hidden` channels, no rotary positions, and no biases of queries, keys and
    values.
    """

    depth: int
    hidden: int
    norm_eps: float = 1e-5

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return 0 < self.depth <= DEEPEST and 0 < self.hidden <= MOST
