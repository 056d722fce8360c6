"""Published weights, measured: what `zoo report` writes."""
