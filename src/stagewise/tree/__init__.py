"""Trees as frozen arrays, and forests of them laid out for prediction."""
