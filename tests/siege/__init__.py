"""Everything that a command touches, given by somebody careless or hostile."""
