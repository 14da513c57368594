"""Files elsewhere, read by byte ranges: by URL, or through an object that reads and seeks.

May import only ``errors``.
"""
