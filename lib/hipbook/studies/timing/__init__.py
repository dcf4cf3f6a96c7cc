"""Times on a GPU board: suites of cases, one process a replication, sessions that a verdict is read from.

suite      what is timed: cases, the arms that serve them, how an arm is held to its oracle
process    one replication: every arm of every case, checked before and after it is timed
session    the processes of a session, the plans fixed before it, and what a record keeps
"""
