"""ConvNeXt and ConvNeXt V2: configuration, network and published models."""
