"""ConvNeXt: configuration, network and published models."""
