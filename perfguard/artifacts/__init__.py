"""Artifacts: files become typed tables.

A directory passes four stages: `layout` finds the files, `conditions` decides which are required, `readers` turn them
into cells, `schema` judges the cells. To add one: a slot in schemas/layouts, a schema in schemas/artifacts; for another format
a line in `READERS`.
"""
