"""Whether a folder is still what its manifest says, and still right."""
