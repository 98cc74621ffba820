"""Explanations of what a journal records, derived from the journal's rows alone."""
