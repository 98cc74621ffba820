"""The questions of a replay, as SQL queries: each module answers a group of questions.

A function takes the names of relations: events with the columns that ``judged`` adds, or the
results of other functions. It returns a query in DuckDB's dialect, which both query engines run.
The result contains codes, which EventTable replaces with strings.
"""
