"""Speed and memory of files, measured beside each other."""
