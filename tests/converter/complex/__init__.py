"""Complex numbers in files, against JAX and numpy."""
