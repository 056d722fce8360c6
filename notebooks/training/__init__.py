"""Training of `vit_digits`, `depth_digits`, `boxes_digits` and `siglip_digits_dual`."""
