"""The platform's decisions, pure: no Airflow, Kubernetes, SQL, network or clock; the time is passed in.

Every rule that decides what happens to a job (what it may ask for, which state it may enter, where it runs, what its
failure means) is here, so that it can be tested and replayed without any service.
"""
