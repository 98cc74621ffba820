"""Scripted failures (drills): the drill language, the shipped drills, running and judging."""
