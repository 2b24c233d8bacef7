"""The git gate: fetch and push as the helper's uid; objects cross to the workspace as packs."""
