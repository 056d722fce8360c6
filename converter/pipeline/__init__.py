"""The list of passes, the functions that they run, and their settings."""
