"""Ready-made folders: every precision of a model, proven, with all that its users need."""
