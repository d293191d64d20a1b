"""Measurements of a machine."""
