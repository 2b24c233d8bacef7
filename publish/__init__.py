"""Makes what is published with a version: reference pages, pictures, bill of materials, checksums.

Runs on a developer's machine only; nothing here is installed, holds a secret or is imported by
the product.
"""
