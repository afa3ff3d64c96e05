"""What operators edit. gunicorn reads this file at start and again on SIGHUP; the command line is stronger.

Every name is one of gunicorn's settings (https://docs.gunicorn.org/en/stable/settings.html). Our own settings
are `PINION_…` variables: `python -m service check` lists them.
"""

import os

# Before anything is imported: a thread that a library starts in the master would keep forked workers from ending,
# and a pool of its own would take cores that belong to other workers.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

from service.prefork import hooks, run_dir, start

settings = start.prepare()

# Where to listen: 127.0.0.1:8000, all interfaces once PORT is set; then PINION_OPERATOR_BIND.
bind = start.addresses(settings)
backlog = 2048

# One worker for each core that may be used (`python -m service plan` shows the lanes), or WEB_CONCURRENCY.
workers = settings.workers or start.default_workers()
worker_class = "service.prefork.worker.GatherWorker"
# With `-k gthread`: threads that read and write; models run on the threads of the plan.
threads = start.io_threads(8)
# Open connections of one worker: as many as its files allow, 10 000 at most; for gthread a number such as 64.
worker_connections = start.connections()

# Seconds: longer than a proxy keeps a connection (nginx 60); until a worker that hangs is killed; for a graceful stop
# (below Kubernetes' 30, with time to spare for its preStop).
keepalive = 75
timeout = 30
graceful_timeout = 25

# Each worker loads the application itself, so that SIGHUP brings new code.
preload_app = False
max_requests = 0

http_parser = "python"
control_socket_disable = True
worker_tmp_dir = run_dir.in_memory()

# Requests are logged by the application, one JSON line each.
accesslog = None
errorlog = "-"
loglevel = settings.log_level

nworkers_changed = hooks.nworkers_changed
on_starting = hooks.on_starting
when_ready = hooks.listen
on_reload = hooks.listen
pre_fork = hooks.pre_fork
post_fork = hooks.post_fork
post_worker_init = hooks.post_worker_init
worker_int = hooks.worker_int
worker_exit = hooks.worker_exit
child_exit = hooks.child_exit
pre_exec = hooks.pre_exec
