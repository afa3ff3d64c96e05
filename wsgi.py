"""The WSGI application: `gunicorn wsgi:app`."""

from service.app import create_app

app = create_app()
