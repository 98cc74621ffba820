"""Random drills: how they are drawn, run by the thousand, and shrunk."""
