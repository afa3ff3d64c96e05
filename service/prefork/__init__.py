"""gunicorn lives here and nowhere else.

In: gunicorn's hooks and settings, sockets with bytes on them.
Out: workers that sit on their own cores and answer what they read, the folder that they share while they live.
Never here: Flask, ONNX Runtime, the meaning of a request. The master imports only this room, `host`, `settings`
and `errors`, so that a reload brings new code of all other rooms.
"""
