"""The launcher: what a learner's container runs around the user's program, in any image.

Standard library alone, Python 3.8 and newer: it travels as one archive into images that hold nothing of ours.
"""
