"""Depth estimation: configuration, network and published models."""
