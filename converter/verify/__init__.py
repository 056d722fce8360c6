"""Files against JAX: what a runtime computes, and how far that is from what is right."""
