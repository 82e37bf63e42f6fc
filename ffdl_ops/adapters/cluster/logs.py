"""The output of a living gang, all ranks interleaved as it comes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.client import Cluster
from ffdl_ops.adapters.cluster.gang import gang_selector
from ffdl_ops.adapters.cluster.observe import pod_view
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.settings import Settings

__all__ = ["stream_job_logs"]


def stream_job_logs(settings: Settings, job: JobRecord, learner: int | None = None) -> Iterator[str]:
    """The lines of a job's living learners, until they end; nothing when none lives.

    :param learner: follow this learner alone (counted from 1).
    """
    from urllib3.exceptions import HTTPError

    cluster = Cluster(settings.kubeconfig)
    namespace = namespace_of(job.tenant)
    views = [pod_view(pod) for pod in cluster.pods(namespace, gang_selector(job.job_id))]
    wanted = [view for view in views if learner is None or view.rank == learner - 1]
    lines: queue.Queue[str | None] = queue.Queue(maxsize=10_000)

    def pump(name: str) -> None:
        try:
            for line in cluster.follow_log(namespace, name):
                lines.put(line)
        except FfdlError as error:
            lines.put(f"(the log of {name} can't be followed: {error})")
        except (OSError, HTTPError) as error:
            lines.put(f"(the connection to the log of {name} broke: {type(error).__name__})")
        finally:
            lines.put(None)

    for view in wanted:
        threading.Thread(target=pump, args=(view.name,), daemon=True).start()
    living = len(wanted)
    while living:
        line = lines.get()
        if line is None:
            living -= 1
        else:
            yield line
