"""The questions of a replay, as SQL queries: each module answers a group of questions.

A function takes the names of relations: events with the columns that ``judged`` adds, or the
results of other functions. It returns a query in DuckDB's dialect. Most queries run in each block
of partitions; some combine the results of all blocks. Results contain codes, which EventTable
replaces with strings.
"""
