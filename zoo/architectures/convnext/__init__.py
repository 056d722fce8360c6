"""ConvNeXts, of both versions."""
