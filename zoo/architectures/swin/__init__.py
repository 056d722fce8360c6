"""Swin Transformer V2: configuration, network and published models."""
