# Where a role's commands run if its AgentRole names no image of its own: what most repositories need to build and test, so that the first
# thread gets somewhere. A repository with needs of its own names an image of its own. Nothing of CodeButler is in it: the agent's
# container copies the toolbox in.
#
#   .ci/images     builds it with docker, podman or buildah; with WORKSPACE_BROWSER=yes also codebutler-workspace-browser
#
# BASE may be any image with apt-get, such as your company's own mirror of Debian.
ARG BASE=debian:13-slim
FROM ${BASE}
# For builds behind a proxy, or with packages from a mirror of your own: /etc/apt of the base counts, unless PACKAGES names a mirror, such as
# a dated snapshot.
ARG PACKAGES=
# Any word adds Chromium and a font, about 450 MB, for pictures of the pages that are built.
ARG BROWSER=
RUN if [ -n "${PACKAGES}" ]; then \
      . /etc/os-release && rm -f /etc/apt/sources.list.d/* \
      && echo "deb [check-valid-until=no] ${PACKAGES} ${VERSION_CODENAME} main" > /etc/apt/sources.list; \
    fi \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates curl file git git-lfs jq less patch procps ripgrep unzip xz-utils zip \
      g++ gcc libc6-dev make pkg-config libffi-dev libssl-dev libsqlite3-dev sqlite3 zlib1g-dev \
      python-is-python3 python3 python3-dev python3-pip python3-venv \
      nodejs npm ${BROWSER:+chromium fonts-liberation} \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/ldconfig /var/log/* /tmp/*
# Programs ask who they are: pods run as this user, or as any other, whose HOME is a volume.
RUN echo 'codebutler:x:65532:65532:CodeButler:/home/codebutler:/bin/bash' >> /etc/passwd \
 && echo 'codebutler:x:65532:' >> /etc/group
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="codebutler-workspace" \
      org.opencontainers.image.description="Git, C, Python and Node for CodeButler's roles" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV LANG=C.UTF-8
USER 65532:65532
CMD ["/bin/bash"]
