"""Revision 0001: runs, workloads, outcomes, series and measurements, as `tables` had them first; no history is older."""

revision = "0001"
down_revision = None
