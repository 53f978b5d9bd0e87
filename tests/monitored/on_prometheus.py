"""Alerts and dashboards on a Prometheus that scrapes real services."""

import math
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
from monitoring.alerts import ALERTS
from monitoring.dashboards import DASHBOARDS

RATE_INTERVAL = "1m"


class Queries:
    """Responses of one Prometheus."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def instant(self, expression: str) -> list[float]:
        """The value of each series; NaN is no data."""
        result = await self._get("query", query=expression)
        return [value for series in result if not math.isnan(value := float(series["value"][1]))]

    async def longest(self, expression: str, begin: float, end: float) -> float:
        """Seconds for which a series of an alert existed without a gap; −1 if there was none."""
        result = await self._get("query_range", query=expression, start=f"{begin}", end=f"{end}", step="1")
        longest = -1.0
        for series in result:
            times = [float(at) for at, _ in series["values"]]
            start = times[0]
            for before, at in zip(times, [*times[1:], math.inf], strict=True):
                longest = max(longest, before - start)
                start = start if at - before <= 1 else at
        return longest

    async def _get(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        async with self._session.get(f"{self._url}/api/v1/{path}", params=parameters) as response:
            body = await response.json()
        assert body["status"] == "success", f"{parameters['query']}: {body}"
        result: list[dict[str, Any]] = body["data"]["result"]
        return result


async def panels_without_data(queries: Queries) -> Mapping[str, str]:
    """By dashboard and title, the query that returned nothing. Panels that may be empty are not counted."""
    found = {}
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                expression = query.expression.replace("$namespace", ".*").replace("$__rate_interval", RATE_INTERVAL)
                assert not re.search(r"\$", expression), expression
                if not await queries.instant(expression) and not panel.empty_when:
                    found[f"{dashboard.title}: {panel.title}"] = expression
    return found


async def true_for(queries: Queries, begin: float, end: float) -> Mapping[str, float]:
    """Alerts whose expression was true at any time, with the longest time in seconds."""
    durations = {alert.name: await queries.longest(alert.expression, begin, end) for alert in ALERTS}
    return {name: seconds for name, seconds in durations.items() if seconds >= 0}
