"""How a server is reached: its route, its addresses, its limits, and connections kept to it."""
