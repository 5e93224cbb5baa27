"""Message passing between regions."""
