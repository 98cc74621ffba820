"""Drills (scripted failures): the drill language, the shipped drills, and how they are run."""
