"""`equipoise certificates`: the files, the connections that they allow, and their renewal."""

import re
import ssl
import stat
from ipaddress import ip_address
from pathlib import Path

import pytest
from bus_worlds import NatsWorld
from cli.programs import run
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from equipoise.cli.certificates.issue import make_certificates
from equipoise.cli.certificates.purposes import EXTENDER, NATS
from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.main import main
from equipoise.runtime.process.clock import SystemClock

TODAY = SystemClock().now()
DAY = 86400
FILES = {"ca.crt", "ca.key", "server.crt", "server.key", "client.crt", "client.key"}


def invoke(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["certificates", "--out", str(folder), *arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def handshake(folder: Path, *, name: str, client_pair: str = "client", server_pair: str = "server") -> None:
    """One TLS handshake in memory, both sides strict. Raises ssl.SSLError."""
    client_context = ssl.create_default_context(cafile=folder / "ca.crt")
    client_context.load_cert_chain(folder / f"{client_pair}.crt", folder / f"{client_pair}.key")
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_cert_chain(folder / f"{server_pair}.crt", folder / f"{server_pair}.key")
    for context in (client_context, server_context):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """The folder has mode 0700, keys 0600."""
    folder = tmp_path / "made" / "here"
    result = invoke(folder)

    assert 0 == result.exit_code, result.output
    assert FILES == {path.name for path in folder.iterdir()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", [*EXTENDER.names, "scorer.example.com", "10.96.7.7", "fd00::7"])
def test_scorer_and_scheduler_accept_each_other(tmp_path: Path, name: str) -> None:
    """With every name of the Service, and with the given names and addresses."""
    addresses = ("--address", "10.96.7.7", "--address", "fd00::7")
    assert 0 == invoke(tmp_path / "out", "--name", "Scorer.example.com", *addresses).exit_code

    handshake(tmp_path / "out", name=name)


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ({"name": "elsewhere.example.com"}, "Hostname mismatch"),
        ({"name": "equipoise-scorer", "client_pair": "server"}, "unsuitable certificate purpose"),
        ({"name": "equipoise-scorer", "server_pair": "client"}, "unsuitable certificate purpose"),
    ],
    ids=["another name", "the server's pair as a client", "the client's pair as a server"],
)
def test_other_names_and_pairs_are_rejected(tmp_path: Path, pairs: dict[str, str], error: str) -> None:
    """Each pair is valid for its own side only."""
    invoke(tmp_path / "out")

    with pytest.raises(ssl.SSLError, match=error):
        handshake(tmp_path / "out", **pairs)


def test_certificates_have_the_requested_validity(tmp_path: Path) -> None:
    """A year by default; the CA has ten years and may not sign further CAs."""
    invoke(tmp_path / "year")
    invoke(tmp_path / "month", "--days", "30")
    ca = read(tmp_path / "year" / "ca.crt")

    def days(path: Path) -> int:
        return (read(path).not_valid_after_utc - read(path).not_valid_before_utc).days

    assert (365, 365) == (days(tmp_path / "year" / "server.crt"), days(tmp_path / "year" / "client.crt"))
    assert (30, 3650) == (days(tmp_path / "month" / "server.crt"), days(tmp_path / "month" / "ca.crt"))
    assert x509.BasicConstraints(ca=True, path_length=0) == ca.extensions.get_extension_for_class(
        x509.BasicConstraints
    ).value  # fmt: skip


def test_each_certificate_has_its_purpose(tmp_path: Path) -> None:
    """Server or client; IP addresses are addresses, not names."""
    invoke(tmp_path / "out", "--address", "10.96.7.7")
    server, client = read(tmp_path / "out" / "server.crt"), read(tmp_path / "out" / "client.crt")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [ip_address("10.96.7.7")] == names.get_values_for_type(x509.IPAddress)
    assert [*EXTENDER.names] == names.get_values_for_type(x509.DNSName)
    purposes = [list(each.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) for each in (server, client)]
    assert [[ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]] == purposes


@pytest.mark.parametrize("present", sorted(FILES))
def test_existing_files_are_not_overwritten(tmp_path: Path, present: str) -> None:
    """If one of the files exists, nothing is written; the error names --force."""
    (tmp_path / present).write_text("precious")
    result = invoke(tmp_path)

    assert 2 == result.exit_code
    assert present in result.stderr
    assert "--force" in result.stderr
    assert {present: b"precious"} == contents(tmp_path)


def test_force_renews_both_pairs_with_the_existing_ca(tmp_path: Path) -> None:
    """So one side may be renewed before the other; keys get mode 0600."""
    invoke(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "server.key").chmod(0o644)
    result = invoke(tmp_path, "--force")
    after = contents(tmp_path)

    assert 0 == result.exit_code, result.output
    assert FILES - {"ca.crt", "ca.key"} == {name for name in FILES if before[name] != after[name]}
    assert 0o600 == stat.S_IMODE((tmp_path / "server.key").stat().st_mode)
    for name in ("client.crt", "client.key"):
        (tmp_path / name).write_bytes(before[name])
    handshake(tmp_path, name="equipoise-scorer")


def test_a_ca_that_expires_too_early_is_invalid_input(tmp_path: Path) -> None:
    """A certificate cannot be valid for longer than its CA."""

    def make(days: int, now: float) -> str:
        return make_certificates(tmp_path, EXTENDER, names=[], addresses=[], days=days, force=True, now=now)

    make(365, TODAY - 3500 * DAY)
    before = contents(tmp_path)

    with pytest.raises(InvalidInput, match=r"the CA in .* expires on .*: use fewer --days"):
        make(365, TODAY)
    assert before == contents(tmp_path)
    make(90, TODAY)
    handshake(tmp_path, name="equipoise-scorer")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda folder: (folder / "ca.key").unlink(), "ca.key is missing"),
        (lambda folder: (folder / "ca.crt").write_text("x"), "cannot be read"),
        (lambda folder: (folder / "ca.key").write_bytes((folder / "client.key").read_bytes()), "is not the key of"),
    ],
)
def test_a_damaged_ca_is_not_replaced(tmp_path: Path, change: object, error: str) -> None:
    """Existing certificates would become invalid."""
    invoke(tmp_path)
    assert callable(change)
    change(tmp_path)
    before = contents(tmp_path)
    result = invoke(tmp_path, "--force")

    assert 2 == result.exit_code
    assert error in result.stderr
    assert before == contents(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--name", "no good"], "--name no good: not a DNS name"),
        (["--name", "größer"], "--name größer: not a DNS name"),
        (["--name", "trailing.\n"], "not a DNS name"),
        (["--address", "scorer.example.com"], "not an IP address; use --name for a name"),
        (["--days", "0"], "0 is not in the range"),
    ],
)
def test_invalid_options_are_invalid_input(tmp_path: Path, arguments: list[str], error: str) -> None:
    """Nothing is written."""
    result = invoke(tmp_path / "out", *arguments)

    assert 2 == result.exit_code
    assert error in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_output_has_the_commands_that_create_the_secrets(tmp_path: Path) -> None:
    """From existing files, without the key of the CA."""
    output = invoke(tmp_path / "a folder").stdout
    sources = re.findall(r"--from-file=(\S+?)='(.+?)'", output)

    assert ["ca.crt", "tls.crt", "tls.key"] * 2 == [key for key, _ in sources]
    assert all(Path(file).exists() for _, file in sources)
    assert not [file for _, file in sources if file.endswith("ca.key")]
    assert ["equipoise-extender-tls", "equipoise-extender-client"] == re.findall(r"create secret generic (\S+)", output)


# for NATS

NATS_FILES = {"ca.crt", "ca.key", "server.crt", "server.key"}


def test_nats_has_a_server_certificate_of_a_ca_of_its_own(tmp_path: Path) -> None:
    """Its clients have passwords. The command that creates the Secret is printed."""
    result = invoke(tmp_path / "nats", "--for", "nats", "--name", "bus.example.com")
    names = read(tmp_path / "nats" / "server.crt").extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert 0 == result.exit_code, result.output
    assert NATS_FILES == {path.name for path in (tmp_path / "nats").iterdir()}
    assert [*NATS.names, "bus.example.com"] == names.get_values_for_type(x509.DNSName)
    assert {"nats", "nats.equipoise-system", "nats.equipoise-system.svc", "localhost"} <= set(NATS.names)
    assert [ip_address("127.0.0.1"), ip_address("::1")] == names.get_values_for_type(x509.IPAddress)
    assert ["equipoise-nats-tls"] == re.findall(r"create secret generic (\S+)", result.stdout)
    assert "ca.key" not in str(re.findall(r"--from-file=\S+", result.stdout))


def test_the_ca_of_another_purpose_is_not_used(tmp_path: Path) -> None:
    """Whoever has the certificate of NATS must not get scores, and the scorer must not pass for NATS."""
    assert 0 == invoke(tmp_path).exit_code
    before = contents(tmp_path)
    result = invoke(tmp_path, "--for", "nats", "--force")

    assert 2 == result.exit_code
    assert "is not the equipoise NATS CA" in result.stderr
    assert before == contents(tmp_path)


async def test_a_command_reaches_nats_through_a_port_forward_with_its_ca(tmp_path: Path) -> None:
    """By an option or a variable. Without it, the error has the reason."""
    assert 0 == invoke(tmp_path / "nats", "--for", "nats").exit_code
    files = {name: tmp_path / "nats" / name for name in NATS_FILES}
    world = NatsWorld(tmp_path, f'tls {{ cert_file: "{files["server.crt"]}", key_file: "{files["server.key"]}" }}')
    await world.start()
    command = ("report", "--since", "7d", "--nats", f"tls://localhost:{world.port}")
    try:
        for arguments, variables in (
            (("--nats-ca", str(files["ca.crt"])), {}),
            ((), {"EQUIPOISE_NATS__TLS__CA_FILE": str(files["ca.crt"])}),
        ):
            code, output = await run(*command, *arguments, **variables)
            assert (1, True) == (code, "there is no stream EQUIPOISE_ADVICE" in output), output
        code, output = await run(*command)
        assert (1, True) == (code, "certificate of the server is rejected" in output), output
    finally:
        await world.stop()
