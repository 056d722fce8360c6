"""What there is: an entry for every model, looked up by its name. Plain data without JAX."""
