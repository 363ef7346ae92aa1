"""Words, pages and the command line.

It may import all other rooms.
"""
