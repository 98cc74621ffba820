"""File access by path: the real file system, an in-memory disk, and disk fault injection."""
