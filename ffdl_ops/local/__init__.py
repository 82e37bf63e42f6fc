"""The embedded default: everything that the platform needs, as processes of this machine, for laptops, tests and CI."""
