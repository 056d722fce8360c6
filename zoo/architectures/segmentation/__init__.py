"""Segmentation networks: configuration, network and published models."""
