"""Swin transformers of the second version."""
