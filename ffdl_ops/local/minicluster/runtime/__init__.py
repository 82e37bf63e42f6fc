"""The programs that start and outlive: they run without this package's other modules, with the standard library alone."""
