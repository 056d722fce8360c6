"""Helpers for all packages of the zoo: errors, options, progress, processes, files and the
terminal."""
