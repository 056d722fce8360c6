"""Rewrite operations that the target lacks or leaves undefined: bounds, divisions, dtypes,
deviations."""
