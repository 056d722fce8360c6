"""Tokenizers, and files that take texts."""
