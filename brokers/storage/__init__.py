"""Files by path: the disk of this machine, and a disk that fails on demand."""
