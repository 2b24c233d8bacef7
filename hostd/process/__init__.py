"""How processes are started: hostd asks the launcher or the zygote, which fork and confine."""
