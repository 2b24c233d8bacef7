"""The sessions that this broker knows: how they begin, what they may take, how they end."""
