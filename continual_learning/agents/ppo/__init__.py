"""Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347)."""
