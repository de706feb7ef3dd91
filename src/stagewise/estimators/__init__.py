"""scikit-learn estimators around the stage loop."""
