"""Detection transformers, RF-DETR and DEIMv2: configuration, network and published models."""
