"""Commands and functions with wrong, hostile or changing files at every path that they take."""
