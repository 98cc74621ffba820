#!/bin/sh
# Fetches Kafka 2.8.2 and all it needs at run time into .kafka/libs, with Maven and its settings.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/.kafka
if [ -e "$target/libs/kafka-tools-2.8.2.jar" ]; then
  echo "Kafka 2.8.2 is already in $target/libs"
  exit 0
fi
if ! command -v mvn >/dev/null; then
  echo "peer-kafka: no mvn in PATH: install Maven, or set KAFKA_LIBS to the libs of a Kafka 2.8.2" >&2
  exit 1
fi
# Half a fetch must not look like a whole one.
rm -rf "$target/fetching"
mvn -q -B -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$target/fetching"
rm -rf "$target/libs"
mv "$target/fetching" "$target/libs"
echo "Kafka 2.8.2 is in $target/libs"
