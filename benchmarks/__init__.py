"""Figures that anybody can measure again; each module prints one JSON line."""
