"""Who shares the platform and how much each may use: tenants, their limits, and the check of a job against them."""
