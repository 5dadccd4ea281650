"""What Ray itself is given: the task that does a job, and the box for the news of jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from leakbench.base import parcels, ray_cluster, ray_worker
from leakbench.base.jobs import Job, News
from leakbench.base.ray_worker import TaskOrder


class NewsBox:
    """What jobs tell, until it is fetched: an actor beside the one who asks."""

    def __init__(self) -> None:
        self._news = deque[News | str](maxlen=10_000)

    def put(self, news: News | str) -> None:
        """Tell."""
        self._news.append(news)

    def take(self) -> list[News | str]:
        """All that was told since."""
        out = list(self._news)
        self._news.clear()
        return out


def task(job: Job, order: TaskOrder, box: Any, sent: Sequence[Any]) -> Iterator[Any]:
    """``leakbench.base.ray_worker.work`` as Ray calls it; ``sent``: references to pieces."""
    ray = ray_cluster.imported()

    def say(news: News | str) -> None:
        with suppress(Exception):  # nobody listens: the job is not to blame
            told = box.put.remote(news)
            if isinstance(news, str):  # a warning: it is there before the job's end is
                ray.get(told, timeout=10)

    def fetch() -> Iterator[parcels.Piece]:
        for ref in sent:
            yield ray.get(ref)

    yield from ray_worker.work(job, order, say, fetch)
