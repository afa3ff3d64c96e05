# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements.txt .
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --only-binary :all: -r requirements.txt

FROM python:3.13-slim
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PORT=8000
WORKDIR /app
COPY --from=build /venv /venv
COPY gunicorn.conf.py wsgi.py requirements.txt ./
COPY service service
COPY models models
RUN python -m compileall -q service wsgi.py
USER 10001
EXPOSE 8000
# 30 s for models to load before a failed probe counts.
HEALTHCHECK --start-period=30s --interval=10s --timeout=6s CMD ["python", "-m", "service", "health"]
CMD ["gunicorn", "wsgi:app"]
