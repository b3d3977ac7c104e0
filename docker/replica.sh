#!/bin/sh
# Starts p2pml-node as one of many equal containers of docker-compose.yml. This script sets up the two things that differ
# between them or need root; the node itself runs as the user p2pml, without any capability.
#
# - The number of the replica. Compose numbers them, and the engine's DNS has the number in the name of this container's
#   address: project-node-3 (or project_node_3). Name, directory and shard follow from it, so that replica 3 finds
#   its identity and its checkpoints again after a restart, also in a new container.
# - The secret. Compose mounts its file with its owner and mode on the host (0600, another user's), and the node accepts
#   only a file of mode 0600 that it can read. So it gets a copy of its own in memory.
set -eu

fail() {
    echo "p2pml-replica: $*" >&2
    exit 1
}

replica_number() {
    for address in $(hostname -i); do
        name=$(getent -s dns hosts "$address" | awk '{ print $2 }')
        name=${name%%.*}
        number=${name##*[-_]}
        case $number in
        '' | *[!0-9]*) ;;
        *) echo "$number" && return ;;
        esac
    done
    fail "the DNS of the engine knows no name such as project-node-3 for $(hostname -i); start this container with:" \
        "docker compose up"
}

secret=/run/secrets/cluster
own_secret=/run/p2pml/cluster.secret
as_p2pml="setpriv --reuid=p2pml --regid=p2pml --clear-groups"

number=$(replica_number)
[ -f "$secret" ] || fail "cluster.secret beside docker-compose.yml is not a file. Remove it, and make one:" \
    "(umask 077; head -c 32 /dev/urandom | base64 > cluster.secret)"
$as_p2pml sh -c "umask 077 && cat > $own_secret" <"$secret"

shards=${P2PML_NODE_START_MEMBERS:-1}
case $shards in
0 | *[!0-9]*) shards=1 ;; # the node reports what is wrong with it
esac
exec $as_p2pml --no-new-privs p2pml-node "$@" \
    --set "node.name=node-$number" --set "node.dir=/data/node-$number" --set "cluster.secret_file=$own_secret" \
    --set "data.shards=$shards" --set "data.shard=$(((number - 1) % shards))"
