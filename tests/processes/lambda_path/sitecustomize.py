"""Python reads this at its start, if the folder is in PYTHONPATH. A function's process then sees its own code
and its layers, and no package of the emulator's environment, whose interpreter runs it."""

import os
import sys

if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
