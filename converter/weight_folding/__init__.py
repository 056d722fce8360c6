"""What goes into weights, and weight programs: what depends on parameters alone."""
