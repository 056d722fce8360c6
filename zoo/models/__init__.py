"""The networks in Equinox and their configurations. Uses nothing else of ours."""
