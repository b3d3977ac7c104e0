# A small image with p2pml-node and p2pml, which do not run as root:
#
#     docker build -t p2pml .
#     docker run --rm p2pml --help
#     docker run --rm --entrypoint p2pml p2pml help
#
# A whole cluster on this host: docker-compose.yml. Behind a proxy: --build-arg http_proxy=...
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY setup.sh .
RUN ./setup.sh build
COPY . .
RUN cmake --preset release -DBUILD_TESTING=OFF -DP2PML_CURL=off -DP2PML_PORT_MAPPING=off && cmake --build --preset release \
    && install -s -D -t /out build/release/bin/p2pml-node build/release/bin/p2pml

FROM debian:bookworm-slim
# Without P2PML_PORT_MAPPING: the router of a container is its host, which forwards the ports that are published.
# The OpenBLAS with threads: the tests use it, and it is hardly larger than the one without (device.threads).
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        libevent-2.1-7 libjansson4 libjpeg62-turbo libopenblas0-pthread libpng16-16 libsodium23 libssl3 libyaml-0-2 zlib1g >/dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && groupadd --gid 7400 p2pml \
    && useradd --uid 7400 --gid p2pml --home-dir /data --no-create-home --shell /usr/sbin/nologin p2pml \
    && install -d -o p2pml -g p2pml -m 0700 /data
COPY --from=build /out/ /usr/local/bin/
COPY docker/replica.sh /usr/local/bin/p2pml-replica
# Fails here, not at the first start, if the list above lacks a library.
RUN p2pml-node --version && p2pml help >/dev/null

USER p2pml
WORKDIR /data
# State belongs on the volume, and the health check uses this port. Both override a configuration file; --set overrides
# both.
ENV P2PML_NODE_DIR=/data P2PML_NODE_HTTP=0.0.0.0:7480
VOLUME /data
EXPOSE 7400/tcp 7400/udp 7480/tcp
# This image has no curl, but bash can open connections.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/7480; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; read -r _ code _ <&3; [ \"$code\" = 200 ]"]
ENTRYPOINT ["p2pml-node"]
