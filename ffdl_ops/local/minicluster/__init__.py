"""minicluster: a stand-in for a Kubernetes cluster on one machine, for laptops and tests.

It speaks the part of the Kubernetes API that this platform and common clients use; its pods are processes of this machine. It
is no cluster: there are no containers, no network between pods but loopback, and images are names for local environments.
"""
