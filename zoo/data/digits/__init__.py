"""Pictures and scenes of handwritten digits, on which the models of digits were trained."""
