"""Networks that find things, each in a box."""
