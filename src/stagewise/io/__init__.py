"""The model file, and the formats of other libraries."""
