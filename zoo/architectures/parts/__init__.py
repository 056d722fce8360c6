"""Layers and data that networks of several kinds share. Uses nothing else of ours."""
