"""Self-contained HTML pages with plots and tables, made from plain values."""
