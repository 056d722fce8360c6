"""Every graph rule of the converter: JAX evaluates drawn graphs before and after the rule."""
