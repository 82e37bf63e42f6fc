"""minicluster: a stand-in for a Kubernetes cluster on one machine, for laptops and tests.

A small asynchronous HTTP server speaks the part of the Kubernetes API that Airflow's provider, this platform's operators,
the official Python clients and the stock ``kubectl`` use. Pods are groups of processes on this machine; nodes and GPUs
come from a file; state is on disk. It is no cluster: docs/minicluster.md says what it does not do.
"""
