"""The client of the API server while the kubelet replaces the token of its pod, which expires."""

from contextlib import aclosing
from pathlib import Path

import pytest
from runtime.kubernetes.test_api_server_tls import InCluster, TlsServer

from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError
from equipoise.runtime.kubernetes.http.availability import FAILURE_SECONDS


def replace_token(inside: InCluster, token: str) -> None:
    """As the kubelet does: the name of the file is a link to another folder from one moment to the next."""
    folder = inside.account / token
    folder.mkdir()
    (folder / "token").write_text(token)
    link = inside.account / "new"
    link.symlink_to(folder / "token")
    link.rename(inside.account / "token")


async def name_of(kube: Kube) -> str:
    return (await kube.get(PODS, "web", "shop")).metadata.name


async def test_a_replaced_token_is_used_once_the_former_one_is_refused(tmp_path: Path) -> None:
    """The request that is refused succeeds with the new one, also if it opens a watch."""
    async with TlsServer(tmp_path).running() as server:
        inside = InCluster(server)
        server.token = "t"
        async with inside.connected() as kube:
            assert await name_of(kube) == "web"
            replace_token(inside, "second")
            server.token = "second"
            assert await name_of(kube) == "web"
            assert await name_of(kube) == "web"
            assert server.unauthorized == 1

            replace_token(inside, "third")
            server.token = "third"
            async with aclosing(kube.watch(PODS, since="1")) as changes:
                assert (await anext(changes)).object is not None
            assert server.unauthorized == 2


async def test_a_token_that_is_replaced_late_or_is_missing_ends_nothing(tmp_path: Path) -> None:
    """Requests fail meanwhile, and after a minute the client states why."""
    async with TlsServer(tmp_path).running() as server:
        inside = InCluster(server)
        server.token = "t"
        async with inside.connected() as kube:
            await name_of(kube)
            server.token = "second"
            for reason in ("401", "NoCredentials"):
                with pytest.raises(KubeError) as error:
                    await name_of(kube)
                assert reason in f"{error.value.reason} {error.value}"
                (inside.account / "token").unlink(missing_ok=True)
                await inside.clock.advance(FAILURE_SECONDS)
            with pytest.raises(KubeError):
                await name_of(kube)
            assert "token file does not exist" in kube.problem

            replace_token(inside, "second")
            assert await name_of(kube) == "web"
            assert kube.problem == ""
