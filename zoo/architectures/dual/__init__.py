"""Dual encoders and their transformers for texts: configuration, network and models."""
