"""Weight programs: values made of parameters alone, computed when the file is saved."""
