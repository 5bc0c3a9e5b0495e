"""What a process reports of itself: the table of Prometheus families, the process's own series
and the log; no scores and no decisions.
"""
