"""A real nats-server with our users, and commands run as the user tap."""

from pathlib import Path

from cli.programs import run

from equipoise.runtime.bus.permissions import User
from equipoise.runtime.configuration import Nats


class Bus:
    """A nats-server with our permission file. The password of a user is `secret of <user>`."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self.url = url

    def password_file(self, user: User) -> str:
        file = self._directory / user
        file.write_text(f"secret of {user}")
        return str(file)

    def settings(self, user: User) -> Nats:
        return Nats(url=self.url, user=user, password_file=self.password_file(user))

    async def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Exit code and output of a command, as the user tap, without a kubeconfig."""
        access = ("--nats", self.url, "--user", "tap", "--password-file", self.password_file("tap"))
        return await run(*arguments, *access, **{"KUBECONFIG": "/nowhere"} | variables)
