#!/bin/sh
# A container started with plain docker, served by Gitmoat. Run as root.
#   examples/docker/run.sh NAME IMAGE REPOSITORY-URL
set -eu
name=$1 image=$2 repository=$3

# One word of the options per line; none has a space in it.
options=$(hostctl attach --prepare "$name" | tr -d '\\')
# shellcheck disable=SC2086 # they are words
container=$(docker run -d $options --entrypoint sleep "$image" infinity)
hostctl attach "$container" --agent --repo "$repository" --push 'agent/**'
docker exec "$container" git clone "$repository" /tmp/work
