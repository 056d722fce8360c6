"""Helpers for all packages: errors, options, progress, processes, files and the terminal."""
