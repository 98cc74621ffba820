"""The command line of klamm: a file for each command group, which parses options and prints."""
