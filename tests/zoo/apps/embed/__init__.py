"""Datasets of vectors: where pictures come from, what becomes of them, and who stops it."""
