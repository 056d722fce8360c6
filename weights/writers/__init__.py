"""Write checkpoints in the formats of other libraries, one tensor at a time."""
