"""Helpers of all packages: errors, options, progress, processes, files, terminal, fonts, versions."""
