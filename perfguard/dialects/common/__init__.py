"""What the rows of several dialects have in common (`views.sql`)."""
