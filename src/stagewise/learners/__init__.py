"""Base learners: what a stage fits to its pairs."""
