"""The page of a run: what happened, in tables and pictures."""
