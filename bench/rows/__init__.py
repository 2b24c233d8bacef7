"""One module for each kind of row. Each takes a way, does one thing once, and says what it saw."""
