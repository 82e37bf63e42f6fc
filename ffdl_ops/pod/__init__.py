"""What runs inside pods, and never imports Airflow or Kubernetes.

`learner` is the launcher around a user's program (standard library alone, in any image), `staging` the helper that moves data,
code, checkpoints and results, and `workloads` the example trainings.
"""
