# klamm in a container: the wheel in a virtual environment, run by an unprivileged user.
# docker build -t klamm .    Java, ZooKeeper and Spark come with the wheels.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS wheel
# For a build without PyPI, pip ignores empty values: PIP_NO_INDEX=1, PIP_FIND_LINKS=a folder of
# wheels in the base image.
ARG PIP_NO_INDEX=
ARG PIP_FIND_LINKS=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir dist . \
 && python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = project['optional-dependencies']; print(*project['dependencies'], *extras['zookeeper'], *extras['replay'], sep='\n')" > requirements.txt

FROM ${PYTHON_IMAGE}
ARG PIP_NO_INDEX=
ARG PIP_FIND_LINKS=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/klamm klamm \
 && mkdir /var/lib/klamm /var/lib/replay /var/lib/spark \
 && chown klamm:klamm /var/lib/klamm /var/lib/replay /var/lib/spark \
 && chmod 700 /var/lib/klamm \
 && python -m venv /opt/klamm
ENV PATH=/opt/klamm/bin:$PATH
# Dependencies first, so that a source change does not reinstall them.
COPY --from=wheel /src/requirements.txt /src/constraints.txt /opt/klamm/
RUN pip install --constraint /opt/klamm/constraints.txt --requirement /opt/klamm/requirements.txt
COPY --from=wheel /src/dist /opt/klamm/dist
# Spark's scripts need JAVA_HOME; this is the Java that klamm itself chooses.
RUN pip install --no-deps /opt/klamm/dist/klamm-*.whl \
 && java=$(XDG_CACHE_HOME=/opt/klamm/cache python -I -c 'from klamm.zk.java import spark_java_home; print(spark_java_home())') \
 && ln -s "$java" /opt/klamm/java

ENV KLAMM_DATA_DIR=/var/lib/klamm
USER klamm
WORKDIR /var/lib/klamm
# The journal, Kafka's logs and the token. A volume mounted here gets this owner.
VOLUME /var/lib/klamm
EXPOSE 8282
HEALTHCHECK --interval=5s --timeout=30s --start-period=60s --retries=3 CMD ["klamm", "status"]
ENTRYPOINT ["klamm"]
CMD ["up", "--brokers", "3", "--host", "0.0.0.0", "--allowed-host", "klamm", "--token-file", "/var/lib/klamm/token"]
