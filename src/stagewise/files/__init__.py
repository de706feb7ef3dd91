"""What a model's file is made of: its terms and plain values as sections of a container."""
