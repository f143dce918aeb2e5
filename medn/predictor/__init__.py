"""The Predictor: what a bundle says about layers and whole models."""
