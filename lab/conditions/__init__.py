"""Conditions that a drill waits for or checks, and the triggers of its steps."""
