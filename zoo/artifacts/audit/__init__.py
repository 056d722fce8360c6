"""`zoo verify`: is a folder, or a file, still what its manifest says, and still right?"""
