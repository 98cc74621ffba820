"""The logs of a broker's replicas: of real segment files, or of intervals that are only counted."""
