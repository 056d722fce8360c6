"""Load models of the zoo from checkpoints, and write checkpoints from models."""
