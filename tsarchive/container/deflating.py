"""Deflating records as archives have them."""

import zlib


def deflated(data: bytes | memoryview) -> bytes:
    """Return the payload of a deflated record of this content, as this build of zlib writes it.

    The window is no larger than the data needs, nor are the tables of short data: to clear them
    takes longer than to deflate a short record. What is found in them is the same: smaller tables
    make longer chains, and zlib cuts none of so few positions.
    """
    bits = (len(data) + _LOOKAHEAD).bit_length()
    memory = bits - _SYMBOL_BITS if len(data) <= _SHORTEST_CUT else zlib.DEF_MEM_LEVEL
    deflater = zlib.compressobj(9, zlib.DEFLATED, -min(bits, zlib.MAX_WBITS), memory)
    return deflater.compress(data) + deflater.flush()


# zlib looks back by that much less than the window; level n of memory has tables of n + 6 bits.
_LOOKAHEAD = 262
_SYMBOL_BITS = 6
# Of a chain zlib follows at least that many positions at level 9.
_SHORTEST_CUT = 1024
