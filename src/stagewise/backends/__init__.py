"""Where a tree is grown: on this machine's cores."""
