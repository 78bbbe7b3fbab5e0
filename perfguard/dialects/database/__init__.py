"""The database exports of torch_npu and MindSpore: what must hold between their tables (`checks.sql`, `views.sql`)."""
