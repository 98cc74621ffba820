"""Spark jobs over event logs; the only folder that imports pyspark."""
