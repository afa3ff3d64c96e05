"""Measures this service beside plain Flask under gunicorn and the bare `session.run` loop: `script/bench`."""
