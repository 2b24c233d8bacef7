"""The same two hops built with different programs: plain HTTP, mTLS between them, then TLS.

`start` of each module makes one way to the upstream; the second hop adds the credential.
"""
