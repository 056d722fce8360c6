"""The passes in their order, what they run, and what they are told."""
