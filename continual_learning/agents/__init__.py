"""Learners, each a pure training program that receives its optimizer."""
