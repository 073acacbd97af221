"""Which addresses may be reached: a strict test for addresses of the public internet.

`ipaddress` alone does not answer it: it calls 64:ff9b::7f00:1 global, 100.64.0.1
neither private nor global, and does not look into the IPv4 address that an IPv6
address carries. Here an address is public only when it is on no list of those that
are not, after every mapping that a router would undo.
"""

import ipaddress
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Policy = Callable[[Address], bool]

_NOT_PUBLIC_4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PRIVATE_4 = tuple(
    IPv4Network(network)
    for network in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)
_PRIVATE_6 = (IPv6Network("fc00::/7"), IPv6Network("::1/128"))
_METADATA = frozenset(
    {IPv4Address("100.100.100.200"), IPv6Address("fd00:ec2::254"), IPv6Address("fd20:ce::254")}
)


def public(address: Address) -> bool:
    """Say whether an address is a unicast one of the public internet."""
    plain = unmapped(address)
    if isinstance(plain, IPv4Address):
        return plain.is_global and not any(plain in network for network in _NOT_PUBLIC_4)
    return plain in _PUBLIC_6 and plain.is_global and not any(plain in network for network in _NOT_PUBLIC_6)


def public_or_private(address: Address) -> bool:
    """The same, and those of this machine and its own networks; never link-local or metadata services."""
    plain = unmapped(address)
    if plain in _METADATA:
        return False
    if isinstance(plain, IPv4Address):
        return public(plain) or any(plain in network for network in _PRIVATE_4)
    return public(plain) or any(plain in network for network in _PRIVATE_6)


def unmapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only carries, as IPv4-mapped or for NAT64."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return IPv6Address(int(address))


def read_address(text: str) -> Address | None:
    """Return the address that a text is, in its one usual notation; None for a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def odd_notation(host: str) -> bool:
    """Say whether a host is an IPv4 address in a notation that parsers read differently.

    Such as 127.1, 2130706433, 0x7f.0.0.1 and 0177.0.0.1.
    """
    if read_address(host) is not None or not host:
        return False
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeError, ValueError):
        last = host.rstrip(".").rpartition(".")[2]
        return last.isdigit() or last.lower().startswith("0x")
    return True
