"""
folder.py PREFIX: prints where an installation below the prefix puts packages of Python: the folder of this
interpreter's search path that is PREFIX/lib/..., else the one that is usual for the prefix.
"""
import os
import sys
import sysconfig

prefix = os.path.abspath(sys.argv[1])
found = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")
         and os.path.relpath(path, prefix).split(os.sep)[0].startswith("lib")]
print(found[0] if found else sysconfig.get_path("platlib", "posix_prefix", {"base": prefix, "platbase": prefix}))
