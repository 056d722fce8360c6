"""Dual encoders, which map images and texts to one space: configuration, network and models."""
