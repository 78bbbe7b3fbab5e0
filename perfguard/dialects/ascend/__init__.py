"""trace_view.json of Ascend and MindSpore: what it promises (`checks.sql`), and what it says (`views.sql`, `view`)."""
