"""What networks say of pictures: names of classes, distances, areas. This costs no JAX."""
