"""Pages of the platform's own, shown inside Airflow's API server; they know nothing of Airflow.

What the server must say (who asks, what they may read, where its other pages are) comes in as a
:class:`~ffdl_ops.ui.host.Host`.
"""
