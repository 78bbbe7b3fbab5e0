"""The files MindSpore writes of operators on the host's CPU: what must agree in them (`checks.sql`), and what recurs in that
(`views.sql`).

Each check held on all 83 real output directories of MindSpore 2.0 and 2.10 it was tried on. The files print C++ floats with six
significant digits, so a cell is off by up to 5e-6 of itself, and what was added up in such floats by a little more.
"""
