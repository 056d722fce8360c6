"""Networks for texts, and dual encoders for pictures and texts: configurations, networks and
published models."""
