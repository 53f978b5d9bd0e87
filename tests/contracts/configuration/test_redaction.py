"""A configuration that is shown contains no secret, and names no file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.redaction import REDACTED, redacted

SECRET = "hunter2"


@pytest.mark.parametrize(
    "settings",
    [
        {"url": f"https://admin:{SECRET}@prometheus:9090"},
        {"url": f"https://admin:p@ss/{SECRET}@prometheus:9090/path"},
        {"url": f"https://{SECRET}@prometheus:9090"},
        {"url": f"https://prometheus:9090/?access={SECRET}"},
        {"url": f"https://prometheus:9090/#{SECRET}"},
        {"url": f"nats://a:4222,nats://tap:{SECRET}@b:4222"},
        {"headers": {"X-Scope-OrgID": SECRET, "Authorization": f"Bearer {SECRET}"}},
        {"password": SECRET},
        {"bearerToken": SECRET},
        {"apiKey": SECRET},
        {"clientSecret": SECRET},
        {"headers": [f"Authorization: {SECRET}"]},
        {"password": {"value": SECRET, "parts": [SECRET]}},
        {"tokens": [SECRET]},
        {"sources": [{"nested": {"token": SECRET}}]},
        {"bearerTokenFile": SECRET},
        {"caFile": SECRET, "cert_file": None},
        {"basicAuthentication": {"username": SECRET, "passwordFile": "/a"}},
        {"serviceAccount": SECRET},
        {"kubeconfig": SECRET},
        {"cgroupRoot": SECRET},
        {"certificateFiles": [SECRET]},
    ],
)
def test_a_secret_is_not_shown_wherever_it_is(settings: dict[str, Any]) -> None:
    """Also one that the configuration would refuse: a later version may accept it."""
    assert SECRET not in str(redacted(settings))
    assert REDACTED in str(redacted(settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://prometheus.monitoring.svc:9090/select/0"},
        {"bearerTokenFile": None, "password": None, "kubeconfig": "", "allowUnauthenticated": True},
        {"profile": "kubelet", "concurrency": 4, "listen": "0.0.0.0:8888"},
        {"query": 'sum(rate(http_requests_total{code=~"5.."}[5m])) by (node)'},
        {"limits": {"max": 5, "window": "10m", "unlimited": True}, "days": ["Mon", "Tue"]},
    ],
)
def test_everything_else_is_shown_as_it_is(settings: dict[str, Any]) -> None:
    assert redacted(settings) == settings


@given(
    st.text(alphabet=st.characters(exclude_characters="@", exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(["http", "https", "nats", "tls", "wss"]),
    st.from_regex(r"[a-z]{1,9}(:[0-9]{1,4})?", fullmatch=True),
)
def test_no_password_of_a_url_is_shown(password: str, scheme: str, host: str) -> None:
    """Whatever characters it has; what follows it is."""
    assert redacted(f"{scheme}://user:{password}@{host}", "url") == f"{scheme}://{REDACTED}@{host}"
