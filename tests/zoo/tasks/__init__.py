"""What networks say of pictures."""
