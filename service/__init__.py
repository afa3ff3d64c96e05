"""Pinion: ONNX models over plain REST, one pinned process and one session a lane of cores."""

__version__ = "0.1.0"
