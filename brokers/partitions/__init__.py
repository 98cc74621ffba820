"""State of one replica on its broker: its log, the controller's last request, its followers."""
