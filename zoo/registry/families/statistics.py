"""Means and standard deviations of pixels, as the papers' code has them."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

HALF = (0.5, 0.5, 0.5)
"""Both, where pixels are brought to [-1, 1]."""
