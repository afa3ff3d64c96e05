"""What happened, in numbers and lines.

In: the outcome of each request. Out: Prometheus metrics over all workers, the statistics of the protocol, one JSON
line a request. Never here: anything that can fail or delay the request it describes.
"""
