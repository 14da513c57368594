"""Program graphs as Python functions and classes."""
