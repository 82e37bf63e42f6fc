"""The launcher: what a learner's container runs around the user's program, in any image.

It meets the gang's other learners, runs the program as a child with a clean environment, passes its output on line by line,
hands a SIGTERM through so that the program can save, and leaves an exit report. Standard library alone, Python 3.8 and newer:
it travels as one archive into images that hold nothing of ours.
"""
