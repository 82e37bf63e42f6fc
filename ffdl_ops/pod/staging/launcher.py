"""The launcher that runs in the user's image: `ffdl_ops.pod.learner` as one archive, which any Python 3.8 can run."""

from __future__ import annotations

import io
import os
import zipfile

from ffdl_ops.pod.staging.files import write_atomically

__all__ = ["write_launcher"]

_NAME = "learner.pyz"
_MAIN = "import sys\n\nfrom ffdl_ops.pod.learner.__main__ import main\n\nsys.exit(main())\n"
_STUB = '"""Part of the launcher\'s archive."""\n'


def write_launcher(tools_dir: str) -> str:
    """Write the launcher's archive; it takes a few milliseconds.

    The packages around the learner are written as stubs: whatever they import on the platform is not in the user's image.

    :returns: its path.
    """
    import ffdl_ops.pod

    source = os.path.join(os.path.dirname(os.path.abspath(ffdl_ops.pod.__file__)), "learner")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("__main__.py", _MAIN)
        archive.writestr("ffdl_ops/__init__.py", _STUB)
        archive.writestr("ffdl_ops/pod/__init__.py", _STUB)
        for where, folders, names in os.walk(source):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(where, name)
                    archive.write(path, "ffdl_ops/pod/learner/" + os.path.relpath(path, source).replace(os.sep, "/"))
    path = os.path.join(tools_dir, _NAME)
    write_atomically(path, b"#!/usr/bin/env python3\n" + buffer.getvalue())
    return path
