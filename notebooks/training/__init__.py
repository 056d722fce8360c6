"""How `vit_digits`, `depth_digits` and `siglip_digits_dual` are trained."""
