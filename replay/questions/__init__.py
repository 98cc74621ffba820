"""What is asked of an event table: one file a family of questions.

Each function takes coded events, or what another has found, and returns a DataFrame that is not
computed yet; its columns are codes, told in words by EventTable.in_words.
"""
