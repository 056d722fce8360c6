"""The models of the zoo, by name. No module here imports JAX before a model is built."""
