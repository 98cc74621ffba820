"""What people do to a cluster: actions, drills, checks, hunts and pages, and klamm in Python."""
