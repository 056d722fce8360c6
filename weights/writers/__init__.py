"""Checkpoints for others, written one tensor at a time."""
