"""A policy as a document: its keys, read strictly and written in one form."""
