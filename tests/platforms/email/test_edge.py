"""The edge over real mail servers: what comes in, what goes out, and what is lost between."""

import asyncio
import json
from email.message import EmailMessage
from functools import partial
from pathlib import Path

import pytest

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.email import PLATFORM
from actors.gateway.platforms.email.edge import standalone
from actors.gateway.platforms.email.options import EmailOptions
from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.delivery import PartText, ProblemKind
from messages.gateway import ChatType, EdgeHeard
from tests.counterparts.mail import Correspondent, MailServers, body_of
from tests.platforms.email.conftest import Bot, post

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 6000


async def test_a_mail_is_answered_in_its_thread_and_the_thread_goes_on(bot: Bot, ann: Correspondent) -> None:
    async with bot.connects() as run:
        own = await asyncio.to_thread(ann.sends, bot.address, "Lunch", "Where shall we go?\n\n-- \nAnn")
        heard = await run.hears("Where shall we go?")
        assert (heard.message_id, heard.origin.thread, heard.origin.chat) == (own, own, ann.address)
        assert (heard.origin.chat_type, heard.author.id, heard.author.name) == (
            ChatType.THREAD,
            ann.address,
            ann.name.title(),
        )
        assert heard.mentions_us
        assert heard.surroundings.thread == "Lunch"
        answer = post(ann.address, "To the **harbour**.", thread=own, reply_to=own)
        sent = await run.edge.say(answer)
        (got,) = await asyncio.to_thread(ann.gets)
        assert (got["Subject"], got["In-Reply-To"], got["References"]) == (
            "Re: Lunch",
            f"<{own}>",
            f"<{own}>",
        )
        assert got["Auto-Submitted"] == "auto-replied"
        assert got["Message-ID"] == f"<{sent}>"
        assert got["From"] == f"Callboard <{bot.address}>"
        assert body_of(got) == "To the harbour."
        rich = got.get_body(("html",))
        assert rich is not None
        assert "<strong>harbour</strong>" in rich.get_content()
        second = await asyncio.to_thread(ann.answers, got, "When?")
        heard = await run.hears("When?")
        assert (heard.message_id, heard.origin.thread) == (second, own)
        assert heard.quote is not None
        assert (heard.quote.ours, heard.quote.message_id) == (True, sent)
        await run.until(lambda: "Seen" in "".join(bot.mailbox.flags()[1:]))


async def test_an_answer_after_a_restart_knows_the_subject_and_a_bare_reply_its_conversation(
    bot: Bot, ann: Correspondent
) -> None:
    async with bot.connects() as run:
        own = await asyncio.to_thread(ann.sends, bot.address, "Überraschung", "eins")
        await run.hears("eins")
    async with bot.connects() as run:
        sent = await run.edge.say(post(ann.address, "zwei", thread=own, reply_to=own))
        (got,) = await asyncio.to_thread(ann.gets)
        assert (got["Subject"], got["References"]) == ("Re: Überraschung", f"<{own}>")
        await asyncio.to_thread(bot.mailbox.gets, 1, "Sent")
    async with bot.connects() as run:
        headers = {"In_Reply_To": f"<{sent}>"}
        await asyncio.to_thread(lambda: ann.sends(bot.address, "Re: x", "drei", **headers))
        assert (await run.hears("drei")).origin.thread == own


async def test_a_reply_that_names_only_the_last_mails_goes_on_in_its_conversation(
    bot: Bot, ann: Correspondent
) -> None:
    """Some programs keep the last few references and leave out the first, which names the conversation."""
    async with bot.connects() as run:
        own = await asyncio.to_thread(ann.sends, bot.address, "s", "one")
        await run.hears("one")
        first = await run.edge.say(post(ann.address, "two", thread=own, reply_to=own))
        chain = {"References": f"<{own}> <{first}>", "In_Reply_To": f"<{first}>"}
        own_second = await asyncio.to_thread(lambda: ann.sends(bot.address, "Re: s", "three", **chain))
        await run.hears("three")
        second = await run.edge.say(post(ann.address, "four", thread=own, reply_to=own_second))
        short = {"References": f"<{own_second}> <{second}>", "In_Reply_To": f"<{second}>"}
        await asyncio.to_thread(lambda: ann.sends(bot.address, "Re: s", "five", **short))
        assert (await run.hears("five")).origin.thread == own
        await run.edge.say(post(ann.address, "six", thread=own))
        (*_, last) = await asyncio.to_thread(ann.gets, 3)
        assert last["References"].split()[0] == f"<{own}>"


async def test_A24_mail_that_came_while_we_were_away_is_answered_once_and_in_order(
    bot: Bot, ann: Correspondent
) -> None:
    await asyncio.to_thread(ann.sends, bot.address, "old", "before the first connection")
    await asyncio.to_thread(bot.mailbox.gets)
    async with bot.connects() as run:
        await asyncio.to_thread(ann.sends, bot.address, "s", "one")
        await run.hears("one")
        await run.until(lambda: json.loads(bot.mark.read_text())["uid"] == 2)
    for number in range(5):
        await asyncio.to_thread(ann.sends, bot.address, "s", f"away {number}")
        await asyncio.to_thread(bot.mailbox.gets, 3 + number)
    async with bot.connects() as run:
        await run.hears("away 4")
        assert [said.text for said in run.heard] == [f"away {n}" for n in range(5)]


async def test_what_was_not_durable_comes_again(bot: Bot, ann: Correspondent) -> None:
    async def breaks(message: EdgeHeard) -> None:
        raise EdgeError(ProblemKind.TRANSIENT, "not taken in time")

    async with bot.connects(breaks) as run:
        await asyncio.to_thread(ann.sends, bot.address, "s", "one")
        assert (await run.fails()).detail == "not taken in time"
    assert "Seen" not in "".join(bot.mailbox.flags())
    async with bot.connects() as run:
        await run.hears("one")


async def test_a_folder_with_new_numbers_is_read_on_by_its_dates(bot: Bot, ann: Correspondent) -> None:
    async with bot.connects() as run:
        await asyncio.to_thread(ann.sends, bot.address, "s", "one")
        await run.hears("one")
        await run.until(lambda: json.loads(bot.mark.read_text())["uid"] == 1)
    kept = json.loads(bot.mark.read_text())
    bot.mark.write_text(json.dumps({**kept, "uidvalidity": 1, "uid": 900}))
    await asyncio.to_thread(ann.sends, bot.address, "s", "two")
    await asyncio.to_thread(bot.mailbox.gets, 2)
    async with bot.connects() as run:
        await run.hears("two")
        assert [said.text for said in run.heard][-1] == "two"
        assert len(run.heard) <= 2  # of the same second, the last may come again, by its own id


async def test_machines_get_no_answer(bot: Bot, ann: Correspondent) -> None:
    async with bot.connects() as run:
        for headers in (
            {"Auto_Submitted": "auto-replied"},
            {"Precedence": "bulk"},
            {"List_Id": "<news.x.org>"},
            {"From": f"Me <{bot.address.upper()}>"},
            {"From": "MAILER-DAEMON@test.local"},
            {"From": f"{ann.address}, other@test.local"},
        ):
            await asyncio.to_thread(partial(ann.sends, bot.address, "s", "machine", **headers))
        await asyncio.to_thread(lambda: ann.sends(bot.address, "s", "a person", Auto_Submitted="no"))
        await run.hears("a person")
        await run.until(lambda: sum(run.edge.skipped.values()) == 6)
        assert len(run.heard) == 1


async def test_files_come_in_and_go_out(bot: Bot, ann: Correspondent, tmp_path: Path) -> None:
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = ann.address, bot.address, "files"
    letter.set_content("look")
    letter.add_attachment(PNG, maintype="application", subtype="pdf", filename="a.pdf")
    letter.add_attachment(b"MZ", maintype="application", subtype="x-dosexec", filename="../../x\u202egnp.exe")
    async with bot.connects() as run:
        await asyncio.to_thread(ann.sends_raw, bot.address, letter.as_bytes())
        heard = await run.hears("look")
        image, file = heard.attachments
        assert isinstance(image, ImageBlock)
        assert isinstance(file, FileBlock)
        assert (image.mime, file.name, file.size) == ("image/png", "xgnp.exe", 2)
        assert await asyncio.to_thread(Path(image.path).read_bytes) == PNG
        given = tmp_path / "plan.txt"
        given.write_bytes(b"the plan")
        block = FileBlock(name="plan.txt", mime="text/plain", path=str(given), size=8)
        await run.edge.say(post(ann.address, body=PartText(text="here", file=block)))
        await run.edge.say(post(ann.address, body=PartText(text="# whole", file_name="answer.md")))
        first, second = await asyncio.to_thread(ann.gets, 2)
        assert [p.get_filename() for p in first.iter_attachments()] == ["plan.txt"]
        assert body_of(first) == "here"
        (attached,) = second.iter_attachments()
        assert attached.get_filename() == "answer.md"
        assert attached.get_payload(decode=True) == b"# whole"


async def test_D10_mails_and_files_over_a_limit_are_named_and_not_moved(
    bot: Bot, ann: Correspondent, tmp_path: Path
) -> None:
    bot.options |= {"fetch_mb": 0.5, "file_mb": 0.1}
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = ann.address, bot.address, "big"
    letter.set_content("see the film")
    letter.add_attachment(b"\xff" * 900_000, maintype="video", subtype="mp4", filename="film.mp4")
    async with bot.connects() as run:
        await asyncio.to_thread(ann.sends_raw, bot.address, letter.as_bytes())
        heard = await run.hears("see the film")
        (told,) = heard.attachments
        assert isinstance(told, TextBlock)
        assert told.text.startswith("[file film.mp4, 1.2")
        assert told.text.endswith("larger than the 500 kB that can be fetched here]")
        block = FileBlock(name="b.bin", mime="a/b", path=str(tmp_path / "b.bin"), size=200_000)
        with pytest.raises(EdgeError, match=r"b\.bin has 200 kB; a mail may carry 100 kB") as failed:
            await run.edge.say(post(ann.address, body=PartText(text="", file=block)))
        assert failed.value.problem.kind is ProblemKind.REFUSED


async def test_what_was_sent_is_found_and_a_mail_to_nobody_is_gone(bot: Bot, ann: Correspondent) -> None:
    async with bot.connects() as run:
        same = post(ann.address)
        assert await run.edge.find(same) is None
        sent = await run.edge.say(same)
        await asyncio.to_thread(bot.mailbox.gets, 1, "Sent")
        assert await run.edge.find(same) == sent
        assert "Seen" in bot.mailbox.flags("Sent")[0]
        kinds = []
        for to in ("gone@test.local", "busy@test.local", "nobody", "a@b\r\nBcc: c@d.e"):
            with pytest.raises(EdgeError) as failed:
                await run.edge.say(post(to))
            kinds.append(failed.value.problem.kind)
        gone, busy = ProblemKind.TARGET_GONE, ProblemKind.TRANSIENT
        assert kinds == [gone, busy, gone, gone]


async def test_a_copy_to_ourselves_proves_what_was_sent_and_is_not_answered(
    bot: Bot, ann: Correspondent
) -> None:
    bot.options["keep_copy"] = "self"
    async with bot.connects() as run:
        same = post(ann.address)
        sent = await run.edge.say(same)
        await asyncio.to_thread(bot.mailbox.gets)
        assert await run.edge.find(same) == sent
        await asyncio.to_thread(ann.sends, bot.address, "s", "hi")
        await run.hears("hi")
        assert len(run.heard) == 1


async def test_headers_cannot_be_smuggled_in(bot: Bot, ann: Correspondent) -> None:
    evil = "Hi\r\nBcc: victim@test.local\r\n\r\nbody"
    async with bot.connects() as run:
        await asyncio.to_thread(
            lambda: ann.sends(bot.address, "=?utf-8?q?x=0D=0ABcc=3A_victim=40test=2Elocal?=", "hello")
        )
        heard = await run.hears("hello")
        await run.edge.say(post(ann.address, evil, thread=heard.origin.thread, reply_to=heard.message_id))
        await run.edge.say(post(ann.address, evil))
        await run.edge.say(post(ann.address, "x", thread="a>\r\nBcc: <v@test.local", reply_to="b c"))
        for got in await asyncio.to_thread(ann.gets, 3):
            assert got["Bcc"] is None
            assert str(got["To"]) == ann.address
        assert bot.mailbox._servers.person("victim").inbox() == []


async def test_the_probe_sees_a_connection_that_hears_nothing(bot: Bot, ann: Correspondent) -> None:
    async with bot.connects() as run:
        await run.edge.probe()
        await asyncio.to_thread(ann.sends, bot.address, "s", "hi")
        await run.hears("hi")
        await run.edge.probe()


async def test_a_server_that_goes_away_ends_the_connection_and_it_can_be_made_again(
    bot: Bot, ann: Correspondent, mail: MailServers
) -> None:
    async with bot.connects() as run:
        await asyncio.to_thread(mail.stop_dovecot)
        assert (await run.fails()).kind is ProblemKind.TRANSIENT
    with pytest.raises(EdgeError) as failed:
        async with bot.connects():
            pass
    assert failed.value.problem.kind is ProblemKind.TRANSIENT
    await asyncio.to_thread(mail.start_dovecot)
    async with bot.connects() as run:
        await asyncio.to_thread(ann.sends, bot.address, "s", "back?")
        await run.hears("back?")


async def test_A01_a_wrong_password_or_folder_needs_somebody(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for change in ({"password": "wrong-one"}, {"folder": "Nowhere"}):
        good = dict(bot.options)
        bot.options |= change
        with pytest.raises(EdgeError) as failed:
            async with bot.connects():
                pass
        assert failed.value.problem.kind is ProblemKind.NEEDS_HUMAN
        assert "wrong-one" not in str(failed.value) + caplog.text
        bot.options = good


async def test_the_doctor_and_one_mail_without_a_connection(bot: Bot, ann: Correspondent) -> None:
    assert PLATFORM.examine is not None
    await asyncio.to_thread(ann.sends, bot.address, "s", "the mailbox is made by its first mail")
    await asyncio.to_thread(bot.mailbox.gets)
    options = EmailOptions.model_validate(bot.options)
    context = bot.edge()._context
    found = await PLATFORM.examine(options, context)
    assert [each.ok for each in found] == [True, True, False]
    assert "trusted_authserv" in found[2].remedy
    wrong = EmailOptions.model_validate(bot.options | {"password": "no"})
    assert not (await PLATFORM.examine(wrong, context))[0].ok
    await standalone(options, post(ann.address, "alone"))
    (got,) = await asyncio.to_thread(ann.gets)
    assert (got["Subject"], got["Auto-Submitted"]) == ("alone", "auto-generated")
