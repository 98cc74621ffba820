"""Runs drills: the runner and its drivers, one for each kind of cluster, and the verdict."""
