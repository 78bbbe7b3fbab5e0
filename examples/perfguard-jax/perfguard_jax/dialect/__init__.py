"""What jax.profiler writes: a layout, a schema, and queries. perfguard reads these files and imports nothing from here."""
