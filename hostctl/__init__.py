"""The admin's command: a thin client of hostd and the broker, and the offline demo.

Trusted with: what root types. Never holds: a credential for longer than handing it over.
Hears: its command line and the answers of the daemons. Speaks to: hostd.sock and
broker-admin.sock as uid 0, and only after checking path and server; it starts and stops both.
"""
