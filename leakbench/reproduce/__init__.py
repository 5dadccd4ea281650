"""`leakbench reproduce`: a paper's table or figure made again, its numbers beside ours.

What a recipe is: see ``recipe``.
"""
