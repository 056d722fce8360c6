"""Build folders with all variants of a model, verified, and the files that their users need."""
