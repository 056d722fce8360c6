"""Pictures of handwritten digits, and scenes of them, on which the models of digits were trained."""
