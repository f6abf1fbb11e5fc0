"""Fails if pip would install other packages than Lambda needs.

    python3 check_host.py requirements.txt aarch64 3.13

pip decides by its own machine which packages of a lock are needed, even if it installs for another system.
uv decides by that system.
"""

import platform
import re
import sys
from pathlib import Path

from pip._vendor.packaging.markers import Marker, default_environment

lock, machine, version = sys.argv[1:]
here = default_environment()
of_lambda = {
    **here,
    "sys_platform": "linux",
    "os_name": "posix",
    "platform_system": "Linux",
    "platform_machine": machine,
    "python_version": version,
    "python_full_version": f"{version}.0",
}
for name, marker in re.findall(r"(?m)^([A-Za-z0-9._-]+)\S* ; (.*?) *\\?$", Path(lock).read_text("utf-8")):
    if Marker(marker).evaluate(here) != Marker(marker).evaluate(of_lambda):
        sys.exit(
            f"error: whether {name} is needed differs between Lambda (Linux, {machine}, Python {version})"
            f" and this machine ({platform.system()}, {platform.machine()}, Python"
            f" {platform.python_version()}), and pip decides by this machine. Run make install, which fetches"
            f" uv, or build on Linux, {machine}, with Python {version}"
        )
