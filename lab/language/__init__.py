"""The drill language: YAML files are converted to drills, with errors at FILE:LINE:COLUMN."""
