#!/bin/sh
# An agent harness that insists on starting its own container. Run as root.
#   examples/agent/run.sh NAME IMAGE REPOSITORY-URL COMMAND...
# The agent waits until git answers, which is when its container was inspected and attached.
set -eu
name=$1 image=$2 repository=$3
shift 3

options=$(hostctl attach --prepare "$name" | tr -d '\\')
# shellcheck disable=SC2086 # they are words
container=$(docker create $options --env REPOSITORY="$repository" --entrypoint sh "$image" -c '
  until git ls-remote -q "$REPOSITORY" >/dev/null 2>&1; do sleep 1; done
  git clone -q "$REPOSITORY" /tmp/work && cd /tmp/work && exec "$@"' agent "$@")
docker start "$container" >/dev/null
hostctl attach "$container" --agent --repo "$repository" --push 'agent/**'
docker logs --follow "$container"
status=$(docker wait "$container")
docker rm "$container" >/dev/null
hostctl rm "$name" >/dev/null
exit "$status"
