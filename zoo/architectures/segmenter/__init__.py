"""Linear classifiers of patches."""
