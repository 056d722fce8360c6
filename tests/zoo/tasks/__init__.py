"""Tasks: answers and drawings from the outputs of networks."""
