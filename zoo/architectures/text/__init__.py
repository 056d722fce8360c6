"""Transformers for texts."""
