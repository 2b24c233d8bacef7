"""What the names in a rule match: hosts, repositories and refs, also as forges spell them."""
