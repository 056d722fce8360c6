"""Fold operations into weights, and compute values that depend only on parameters when saving."""
