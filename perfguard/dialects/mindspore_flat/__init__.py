"""The flat files of MindSpore 1.x to 2.4: what must agree in them (`checks.sql`), and what recurs in that (`views.sql`).

The files kept their names while their writers changed: up to 2.0 they are made by parsers of MindSpore's own, from 2.1 on out
of msprof's op_summary. Whatever holds for one of the two only is checked for its layouts.
"""
