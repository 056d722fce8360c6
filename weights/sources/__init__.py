"""Where checkpoints come from: folders, caches, and the hub."""
