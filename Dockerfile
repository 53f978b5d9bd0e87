# One image for all services, the setup step and those commands of the program `equipoise` that use a cluster.
# To build from a fixed base: --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:… (docs/install.md, "Install with kustomize").
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /source
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 VIRTUAL_ENV=/opt/equipoise
COPY requirements requirements
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r requirements/uv.txt
RUN uv venv --python /usr/local/bin/python /opt/equipoise
RUN uv pip install --no-build --require-hashes -r requirements/image.txt
COPY libs libs
COPY services services
RUN uv pip install --no-deps --no-index --offline --no-sources ./libs/* ./services/*
RUN /opt/equipoise/bin/python -m requirements.trim
RUN python -m requirements.sbom > /opt/equipoise/sbom.cdx.json

FROM ${PYTHON_IMAGE}
# The base image contains two copies of pip.
RUN pip uninstall --yes --root-user-action=ignore pip && rm -r /usr/local/lib/python3.*/ensurepip
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin equipoise
COPY --from=build /opt/equipoise /opt/equipoise
# Products of matrices are small. OpenBLAS would start a thread for each CPU of the node, whatever the limit of the container is.
ENV PATH=/opt/equipoise/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1
USER 10001
ENTRYPOINT []
CMD ["equipoise", "version"]
