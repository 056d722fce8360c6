"""Segmentation: configurations, networks and published models."""
