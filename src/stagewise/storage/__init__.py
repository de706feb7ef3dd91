"""Bytes on disk: a checked container of named arrays, files replaced in one step, files that are mapped, locks."""
