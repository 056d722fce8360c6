"""Layers, options and outputs that networks of several kinds share."""
