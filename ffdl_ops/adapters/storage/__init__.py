"""The object store, through S3's API: credentials, objects, bulk transfer, data sets, code archives, checkpoints.

Control calls go through boto3, bulk transfer through the `s5cmd` binary. Nothing heavy is imported here, and boto3 only
when a call is made, so that a DAG file or a helper that needs no store pays nothing.
"""
