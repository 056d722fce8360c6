"""The images that the models of digits were trained on."""
