# `combopeps serve` in a container: docs/deploy.md. The steps are tested outside of Docker, in another folder: RUN names
# directories of the image by variables only.
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY combopeps combopeps
COPY instances instances
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir wheels .

FROM python:${PYTHON_VERSION}-slim AS installed
ENV PREFIX=/opt/combopeps
WORKDIR /wheels
COPY --from=wheel /source/wheels .
RUN python -m venv --without-pip "$PREFIX"
RUN python -m pip --python "$PREFIX/bin/python" install --no-cache-dir --no-compile "$(echo ./*.whl)[serve,sql]"
# Layers hold times in whole seconds, and numba up to 0.67 takes a kernel for outdated when the time of its source differs.
RUN find "$PREFIX" -name '*.py' -exec touch --date=@1577836800 '{}' +
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$PREFIX/lib"

FROM python:${PYTHON_VERSION}-slim
ENV PREFIX=/opt/combopeps
ENV DATA=/data
ENV PATH=$PREFIX/bin:$PATH
# Kernels are compiled here, for every processor of the architecture, and copied from here when a process begins.
ENV NUMBA_CACHE_DIR=/var/cache/combopeps
ENV NUMBA_CPU_NAME=generic
COPY --from=installed $PREFIX $PREFIX
COPY --chmod=755 docs/deploy/entrypoint.sh /usr/local/bin/combopeps-entrypoint
RUN python -m combopeps.warm_up && chmod -R a=rX "$NUMBA_CACHE_DIR"
RUN install --directory --owner=10001 --group=10001 "$DATA"
USER 10001:10001
WORKDIR $DATA
EXPOSE 8765
HEALTHCHECK --start-period=30s --interval=10s --timeout=10s CMD ["python", "-c", "import http.client; c = http.client.HTTPConnection('127.0.0.1', 8765, timeout=8); c.request('GET', '/me'); raise SystemExit(c.getresponse().status not in (200, 401))"]
ENTRYPOINT ["combopeps-entrypoint"]
CMD ["serve", "--host", "0.0.0.0", "--state", "run.db", "--token-file", "/run/secrets/tokens"]
