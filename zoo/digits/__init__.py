"""Handwritten digits, and how `vit_digits` is trained on them."""
