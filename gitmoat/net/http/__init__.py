"""Both ends of an HTTP/1.1 connection; `ends` has the names that their users import."""
