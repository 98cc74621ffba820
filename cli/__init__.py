"""The command line: one file per command group, parsing and printing only."""
