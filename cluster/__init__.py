"""Value types that any package may import. They use no I/O, clocks or threads."""
