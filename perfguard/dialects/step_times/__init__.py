"""Tables of step times: step_trace_time of a rank, and what a cluster's analysis makes of those of many."""
