"""Real runtimes on this machine: compile with XLA, run, time.

An optional extra (`pip install -e .[measure]`); only `backend` calls into it.
"""
