#!/usr/bin/env bash
# The mail servers for the tests: Debian's dovecot (IMAP) and postfix (SMTP). They are started by the
# tests, on loopback ports and folders of their own; nothing of the system's configuration is used.
set -euo pipefail

if command -v dovecot >/dev/null 2>&1 && [ -x /usr/sbin/postfix ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "counterparts: dovecot and postfix are needed for the tests of e-mail; install them and try again" >&2
  exit 1
fi
echo "counterparts: installing dovecot and postfix"
export DEBIAN_FRONTEND=noninteractive
echo "postfix postfix/main_mailer_type select No configuration" | debconf-set-selections
apt-get -qq update
apt-get -qq install -y --no-install-recommends dovecot-imapd dovecot-lmtpd postfix >/dev/null
