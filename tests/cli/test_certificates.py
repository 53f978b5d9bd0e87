"""`equipoise certificates`: the files, who they let in, and what may not be overwritten."""

import re
import ssl
import stat
from ipaddress import ip_address
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from equipoise.cli.certificates.issue import SERVICE_NAMES, make_certificates
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


def shake_hands(folder: Path, *, name: str, caller: str = "client", listener: str = "server") -> None:
    """One TLS handshake in memory, both sides strict. Raises ssl.SSLError."""
    asks = ssl.create_default_context(cafile=folder / "ca.crt")
    asks.load_cert_chain(folder / f"{caller}.crt", folder / f"{caller}.key")
    answers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    answers.verify_mode = ssl.CERT_REQUIRED
    answers.load_cert_chain(folder / f"{listener}.crt", folder / f"{listener}.key")
    for context in (asks, answers):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asks.wrap_bio(to_client, to_server, server_hostname=name)
    server = answers.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Three pairs in a folder of the user's own; keys have mode 0600."""
    folder = tmp_path / "made" / "here"
    result = invoke(folder)

    assert 0 == result.exit_code, result.output
    assert FILES == {path.name for path in folder.iterdir()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", [*SERVICE_NAMES, "scorer.example.com", "10.96.7.7", "fd00::7"])
def test_scorer_and_scheduler_accept_each_other(tmp_path: Path, name: str) -> None:
    """Under every name of the Service, and under names and addresses that were asked for."""
    addresses = ("--address", "10.96.7.7", "--address", "fd00::7")
    assert 0 == invoke(tmp_path / "out", "--name", "Scorer.example.com", *addresses).exit_code

    shake_hands(tmp_path / "out", name=name)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ({"name": "elsewhere.example.com"}, "Hostname mismatch"),
        ({"name": "equipoise-scorer", "caller": "server"}, "unsuitable certificate purpose"),
        ({"name": "equipoise-scorer", "listener": "client"}, "unsuitable certificate purpose"),
    ],
    ids=["another name", "the scorer's pair as a caller", "the caller's pair as a scorer"],
)
def test_nothing_else_is_accepted(tmp_path: Path, pairs: dict[str, str], said: str) -> None:
    """Each pair is good for its own side only."""
    invoke(tmp_path / "out")

    with pytest.raises(ssl.SSLError, match=said):
        shake_hands(tmp_path / "out", **pairs)


def test_certificates_last_as_long_as_was_asked(tmp_path: Path) -> None:
    """A year by default; the authority ten, and it makes no further authorities."""
    invoke(tmp_path / "year")
    invoke(tmp_path / "month", "--days", "30")
    authority = read(tmp_path / "year" / "ca.crt")

    def days(path: Path) -> int:
        return (read(path).not_valid_after_utc - read(path).not_valid_before_utc).days

    assert (365, 365) == (days(tmp_path / "year" / "server.crt"), days(tmp_path / "year" / "client.crt"))
    assert (30, 3650) == (days(tmp_path / "month" / "server.crt"), days(tmp_path / "month" / "ca.crt"))
    assert x509.BasicConstraints(ca=True, path_length=0) == authority.extensions.get_extension_for_class(
        x509.BasicConstraints
    ).value  # fmt: skip


def test_each_certificate_says_what_it_is_for(tmp_path: Path) -> None:
    """Server's and client's purpose are apart, and addresses are addresses, not names."""
    invoke(tmp_path / "out", "--address", "10.96.7.7")
    server, client = read(tmp_path / "out" / "server.crt"), read(tmp_path / "out" / "client.crt")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [ip_address("10.96.7.7")] == names.get_values_for_type(x509.IPAddress)
    assert [*SERVICE_NAMES] == names.get_values_for_type(x509.DNSName)
    purposes = [list(each.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) for each in (server, client)]
    assert [[ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]] == purposes


@pytest.mark.parametrize("present", sorted(FILES))
def test_nothing_is_overwritten_unasked(tmp_path: Path, present: str) -> None:
    """One file of ours is enough to stop; nothing is written, and the way on is said."""
    (tmp_path / present).write_text("precious")
    result = invoke(tmp_path)

    assert 2 == result.exit_code
    assert present in result.stderr
    assert "--force" in result.stderr
    assert {present: b"precious"} == contents(tmp_path)


def test_force_renews_both_pairs_with_the_authority_that_is_there(tmp_path: Path) -> None:
    """So one side may be renewed before the other; a key that others could read becomes the owner's alone."""
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
    shake_hands(tmp_path, name="equipoise-scorer")


def test_an_authority_that_ends_too_soon_signs_nothing(tmp_path: Path) -> None:
    """A certificate cannot outlive its authority: that is said instead of being shortened silently."""

    def make(days: int, now: float) -> str:
        return make_certificates(tmp_path, names=[], addresses=[], days=days, force=True, now=now)

    make(365, TODAY - 3500 * DAY)
    before = contents(tmp_path)

    with pytest.raises(InvalidInput, match=r"the authority in .* ends on .*: give fewer --days"):
        make(365, TODAY)
    assert before == contents(tmp_path)
    make(90, TODAY)
    shake_hands(tmp_path, name="equipoise-scorer")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "ca.key").unlink(), "ca.key is missing"),
        (lambda folder: (folder / "ca.crt").write_text("x"), "cannot be read"),
        (lambda folder: (folder / "ca.key").write_bytes((folder / "client.key").read_bytes()), "is not the key of"),
    ],
)
def test_a_damaged_authority_is_not_replaced_silently(tmp_path: Path, change: object, said: str) -> None:
    """Everyone who trusts it would stop being answered."""
    invoke(tmp_path)
    assert callable(change)
    change(tmp_path)
    before = contents(tmp_path)
    result = invoke(tmp_path, "--force")

    assert 2 == result.exit_code
    assert said in result.stderr
    assert before == contents(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "no good"], "--name no good: no DNS name"),
        (["--name", "größer"], "--name größer: no DNS name"),
        (["--name", "trailing.\n"], "no DNS name"),
        (["--address", "scorer.example.com"], "no IP address; for a name use --name"),
        (["--days", "0"], "0 is not in the range"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, and nothing is written."""
    result = invoke(tmp_path / "out", *arguments)

    assert 2 == result.exit_code
    assert said in result.stderr
    assert not (tmp_path / "out").exists()


def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    """Commands that make the two Secrets, of files that are there; the authority's key goes nowhere."""
    said = invoke(tmp_path / "a folder").stdout
    sources = re.findall(r"--from-file=(\S+?)='(.+?)'", said)

    assert ["ca.crt", "tls.crt", "tls.key"] * 2 == [key for key, _ in sources]
    assert all(Path(file).exists() for _, file in sources)
    assert not [file for _, file in sources if file.endswith("ca.key")]
    assert ["equipoise-extender-tls", "equipoise-extender-client"] == re.findall(r"create secret generic (\S+)", said)
    assert "scorer.extender.tls" in said
