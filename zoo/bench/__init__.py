"""How fast files are, measured beside each other."""

from zoo.bench.rounds import interleaved

__all__ = ["interleaved"]
