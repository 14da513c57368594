"""The cache of compiled code: a folder of the user's, with one entry for the code of an archive.

It knows nothing of what entries hold but their key and that they are whole. May import nothing.
"""

from .folder import MOST_BYTES, VARIABLE, CacheFolder, Entry, State, cache_folder, is_turned_off

__all__ = [
    "MOST_BYTES",
    "VARIABLE",
    "CacheFolder",
    "Entry",
    "State",
    "cache_folder",
    "is_turned_off",
]
