"""The questions of a replay: each file answers a group of them with Spark queries.

Each function takes coded events, or the result of another function, and returns a DataFrame that
is not computed yet. Its columns hold codes; EventTable.in_words replaces them by names.
"""
