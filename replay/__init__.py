"""Reconstructs what happened in a cluster from its logs (`klamm replay`), with DuckDB or Spark.

No other package imports duckdb or pyspark."""
