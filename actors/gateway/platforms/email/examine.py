"""What `callboard doctor` says about a mailbox."""

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.email.mailbox import Mailbox, Worker
from actors.gateway.platforms.email.options import EmailOptions
from actors.gateway.platforms.email.sending import Sender
from actors.gateway.registry import Finding
from messages.delivery import ProblemKind


async def examine(options: EmailOptions, context: EdgeContext) -> tuple[Finding, ...]:
    """Log in at both servers; nothing is sent. Raises EdgeError when one cannot be reached."""
    return (
        *await _mailbox(options, context),
        await _sending(options),
        _senders(options),
    )


async def _mailbox(options: EmailOptions, context: EdgeContext) -> tuple[Finding, ...]:
    worker = Worker(Mailbox(options), f"imap-check:{context.account}")
    try:
        await worker.do(worker.mailbox.open, options.folder, readonly=True)
        sent = await worker.do(worker.mailbox.sent_folder)
    except EdgeError as error:
        return (_failed("The mailbox cannot be opened.", error),)
    finally:
        worker.stop()
    found = [Finding(True, f"The mailbox is open: {options.login}, folder {options.folder}.")]
    if options.keep_copy == "sent" and sent is None:
        found.append(
            Finding(
                False,
                "The mailbox has no folder for what was sent.",
                "Name one as `sent_folder`, or set `keep_copy: self`: without a copy nobody can tell "
                "whether a mail went out when a connection breaks.",
            )
        )
    return tuple(found)


async def _sending(options: EmailOptions) -> Finding:
    try:
        await Sender(options).check()
    except EdgeError as error:
        return _failed("Mail cannot be sent.", error)
    return Finding(True, f"Mail can be sent through {options.smtp_host}.")


def _senders(options: EmailOptions) -> Finding:
    if options.trusted_authserv is not None:
        return Finding(
            True,
            f"Only senders that {options.trusted_authserv} has proven are answered (`trusted_authserv`).",
        )
    return Finding(
        False,
        "Senders are not proven: anybody can write mail under an allowed person's address.",
        "Set `trusted_authserv` to the first word of the Authentication-Results line that your own mail "
        "server puts on top of what it receives.",
    )


def _failed(what: str, error: EdgeError) -> Finding:
    if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
        raise error
    return Finding(False, what, error.problem.detail)
