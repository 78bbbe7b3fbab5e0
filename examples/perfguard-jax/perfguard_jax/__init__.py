"""JAX for perfguard."""
