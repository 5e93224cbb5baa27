"""Message passing between factors and variables."""
