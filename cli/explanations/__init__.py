"""Why something in a journal happened, read from its rows alone."""
