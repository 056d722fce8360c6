"""Layers and data that several kinds of networks share, without imports of other packages."""
