"""Models of the zoo from checkpoints, and checkpoints from models of the zoo."""
