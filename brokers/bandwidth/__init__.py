"""How fast records travel: links and disks shared fairly, and the limits that operators set."""
