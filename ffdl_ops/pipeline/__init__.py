"""Airflow's face: the DAG of each tenant, its operators, triggers and links; all of them thin.

What a stage does is written once in the modules beside this one (`gang`, `admission`, `helpers`, `finishing`, …) over the
adapters; an operator calls it and defers, a trigger waits for it.
"""
