"""Object detection: configurations, networks and published models."""
