"""The one conductor of train, attack and score: what is wanted, what is there, what is to be done.

A command says what it wants; a part of this room plans it, does it and says what came of it.
"""
