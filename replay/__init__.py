"""Spark jobs over event logs (`klamm replay`); the only package that imports pyspark."""
