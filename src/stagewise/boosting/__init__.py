"""The stage loop, and the small objects that are plugged into it."""
