"""The offline tour of `hostctl demo`: its stage, and the promises that it shows."""
