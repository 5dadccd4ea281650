"""Does it leak more than the committed baseline?"""
