"""What the target lacks or leaves open: bounds, divisions, dtype fallbacks, deviations."""
