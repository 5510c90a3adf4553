"""Faults to order: each does one named harm, is recorded while it lasts, and can be undone.

    with cluster.faults.cut("node2"):
        ...

By hand: `devcluster fault …`, `devcluster fault list`, `devcluster fault heal`.
"""

from devcluster.faults.orders import Faults
from devcluster.faults.record import Fault

__all__ = ["Fault", "Faults"]
