"""Transformers for texts: configuration and network."""
