"""Which addresses are of the public internet."""

from ipaddress import ip_address

import pytest

from actors.tool.addresses import odd_notation, public, public_or_private

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]
PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
    "::1", "fc00::1", "fd12:3456::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
]  # fmt: skip
NEVER = [
    "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1",
    "::7f00:1", "::127.0.0.1", "::ffff:0:7f00:1", "100::1", "fec0::1", "fd00:ec2::254", "100.100.100.200", "3fff::1",
    "5f00::1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_X04_addresses_of_the_internet_may_be_reached(text: str) -> None:
    assert public(ip_address(text))
    assert public_or_private(ip_address(text))


@pytest.mark.parametrize("text", PRIVATE)
def test_X04_addresses_of_our_own_networks_only_with_permission(text: str) -> None:
    assert not public(ip_address(text))
    assert public_or_private(ip_address(text))


@pytest.mark.parametrize("text", NEVER)
def test_X04_addresses_that_are_neither_never(text: str) -> None:
    assert not public(ip_address(text))
    assert not public_or_private(ip_address(text))


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "127.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "08.8.8.8",
    ],
)
def test_X04_odd_notations_are_known(host: str) -> None:
    assert odd_notation(host)


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "example.com", "1password.com", "a.b.c.d", "::1", "xn--p1ai", "4chan.org"]
)
def test_names_and_usual_addresses_are_none(host: str) -> None:
    assert not odd_notation(host)
