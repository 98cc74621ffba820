#!/bin/sh
# Fetches Kafka 2.8.2 and all it needs at run time into .kafka/libs, and a newer Java client into
# .kafka/clients, with Maven and its settings.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/.kafka
client=3.9.1

fetch() { # fetch FOLDER GOAL...: half a fetch must not look like a whole one.
  folder=$1
  shift
  rm -rf "$target/fetching"
  mvn -q -B -Dstyle.color=never -f "$here/pom.xml" "$@" -DoutputDirectory="$target/fetching"
  rm -rf "${target:?}/$folder"
  mv "$target/fetching" "$target/$folder"
}

if [ -e "$target/libs/kafka-tools-2.8.2.jar" ] &&
  [ -e "$target/clients/kafka-clients-$client.jar" ]; then
  echo "Kafka 2.8.2 and the client $client are already in $target"
  exit 0
fi
if ! command -v mvn >/dev/null; then
  echo "peer-kafka: no mvn in PATH: install Maven, or set KAFKA_LIBS to the libs of a Kafka 2.8.2" >&2
  exit 1
fi
[ -e "$target/libs/kafka-tools-2.8.2.jar" ] || fetch libs dependency:copy-dependencies
fetch clients dependency:copy "-Dartifact=org.apache.kafka:kafka-clients:$client"
echo "Kafka 2.8.2 and the client $client are in $target"
