"""Vision transformers: configuration, network, settings and published models."""
