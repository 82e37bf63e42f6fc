"""What helper containers run: staging data, preparing a learner's directories, uploading checkpoints, storing results.

`python -m ffdl_ops.pod.staging <fetch|prepare|sidecar|checkpoint|store>`. `prepare` is on the way of every job's start, so
modules here import little and late.
"""
