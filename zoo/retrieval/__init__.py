"""Searching a dataset of vectors: for what is like a picture, a text, or a row; for duplicates."""
