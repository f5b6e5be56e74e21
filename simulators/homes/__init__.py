"""Homes: who lives there, what they switch on, what their meters report, and what goes wrong on the way."""
