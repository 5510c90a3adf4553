"""The generated messages; and, before any of them, what protobuf would load and not use.

Besides its compiled half, which does the work, it imports the one in Python: 1.2 MiB and a tenth of a sidecar's start,
beside every server.
"""

import sys
from types import ModuleType

from google.protobuf.internal import api_implementation

UNUSED = "google.protobuf.internal.python_message"

if api_implementation.Type() != "python":
    sys.modules.setdefault(UNUSED, ModuleType(UNUSED))
