"""Makes what is published with a version, and counts what the product consists of.

Runs on a developer's machine only; nothing here is installed, holds a secret or is imported by
the product.
"""
