"""Scripted failures: the drill language, the drills that ship with klamm, and how one is run."""
