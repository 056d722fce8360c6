"""Networks that find things on the maps of DINOv3, each in a box whose edges are distributions."""
