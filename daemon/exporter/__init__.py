"""The role that serves: lanes read from the store, summed to snapshots and rendered; it never
writes lane state.
"""
