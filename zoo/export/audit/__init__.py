"""Check a built folder: files, digests, golden outputs and the network in JAX."""
