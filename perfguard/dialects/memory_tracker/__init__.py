"""MindSpore's memory tracker: what must hold in it (`checks.sql`). Its time stamps are a counter of events, no clock."""
