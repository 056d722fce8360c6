"""Networks that say how far away every pixel is."""
