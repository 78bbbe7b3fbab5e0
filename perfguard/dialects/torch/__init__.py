"""torch.profiler: what its traces promise (`checks.sql`), and what they measure (`views.sql`, `executions.sql`, `work`)."""
