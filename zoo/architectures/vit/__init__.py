"""Vision transformers: configuration, network, settings of libraries, and published models."""
