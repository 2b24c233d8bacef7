"""What must outlive the broker's process: sessions, used grant counters, the audit head.

Trusted with: being on disk before an answer is given. Never holds: a credential or a private key.
Hears: the session registry, one call at a time. Speaks to: one database.
"""
