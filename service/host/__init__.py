"""What the machine gives, and who gets which part of it.

In: `/proc`, `/sys` and cgroup files (of this machine or of a recorded tree), the number of workers.
Out: a core plan with its reasons, seats, masks, the board that all workers share, the place of this process.
Never here: gunicorn, HTTP, models, a guess that is not said in the plan.
"""
