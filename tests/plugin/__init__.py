"""The plugin, tested from outside: whole pytest runs in processes of their own."""
