# One image for the five services, the setup step and the program `equipoise`; the command selects what runs.
FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /source
COPY . .
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/equipoise
RUN uv sync --no-dev --no-editable --compile-bytecode --python /usr/local/bin/python

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin equipoise
COPY --from=build /opt/equipoise /opt/equipoise
ENV PATH=/opt/equipoise/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
ENTRYPOINT []
CMD ["equipoise", "version"]
