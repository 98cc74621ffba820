"""File access by path: the disk of this machine, a disk in memory, and fault injection."""
