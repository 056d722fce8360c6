"""How fast files are, measured beside each other."""
