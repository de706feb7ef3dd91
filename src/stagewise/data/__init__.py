"""From any table to bins: Table, cut points, Dataset."""
