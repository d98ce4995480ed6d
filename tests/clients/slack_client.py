"""Drives the testbed's Slack with the official slack_sdk.

The test that started this script plays the people: one JSON object a line on standard output is a
wish ({"do": "post_as", ...}), one line on standard input its answer. Everything else goes to
standard error. Exits 0 if every check held.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
import urllib.request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.builtin.connection import Connection, ConnectionState
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.webhook import WebhookClient

API = os.environ["SLACK_API_URL"] + "/"
BOT = os.environ["SLACK_BOT_TOKEN"]
APP = os.environ["SLACK_APP_TOKEN"]


def wish(do, **fields):
    print(json.dumps({"do": do, **fields}), flush=True)
    answer = json.loads(sys.stdin.readline())
    if "error" in answer:
        raise AssertionError(f"{do}: {answer['error']}")
    return answer.get("value")


def code_of(call, **fields):
    try:
        call(**fields)
    except SlackApiError as error:
        return error.response["error"]
    return "ok"


class Socket:
    """A Socket Mode client that acknowledges and keeps what it receives."""

    def __init__(self, web):
        self.received = queue.Queue()
        self.ack = True
        self.client = SocketModeClient(app_token=APP, web_client=web)
        self.client.socket_mode_request_listeners.append(self.listen)
        self.client.connect()

    def listen(self, client, request):
        if self.ack:
            client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        self.received.put(request)

    def next(self, fits, what):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                request = self.received.get(timeout=0.2)
            except queue.Empty:
                continue
            if fits(request):
                return request
        raise AssertionError(f"no {what} came")

    def event(self, kind, fits=lambda event: True):
        def wanted(request):
            event = request.payload.get("event", {})
            return request.type == "events_api" and event.get("type") == kind and fits(event)

        return self.next(wanted, kind)

    def events(self, kinds, fits):
        """One of each kind, in whatever order the client's threads handed them over."""
        found = {}

        def wanted(request):
            event = request.payload.get("event", {})
            kind = event.get("type")
            return kind in kinds and kind not in found and fits(event)

        while len(found) < len(kinds):
            request = self.next(wanted, ", ".join(set(kinds) - set(found)))
            found[request.payload["event"]["type"]] = request
        return [found[kind] for kind in kinds]


def messages(web, sockets, channel, user, bot_user):
    socket = sockets
    root = wish("post_as", text=f"hello @codebutler & <all>, see https://example.com")
    kinds = ["message", "app_mention"]
    message, mention = socket.events(kinds, lambda e: e["ts"] == root)
    event = message.payload["event"]
    assert event["text"] == f"hello <@{bot_user}> &amp; &lt;all&gt;, see <https://example.com>", event
    assert event["user"] == user and event["channel"] == channel, event
    assert event["channel_type"] == "channel" and event["client_msg_id"], event
    assert message.payload["type"] == "event_callback" and message.retry_attempt == 0
    assert mention.payload["event_id"] != message.payload["event_id"]

    posted = web.chat_postMessage(
        channel=channel,
        thread_ts=root,
        text="on it",
        username="Coder",
        icon_emoji=":hammer:",
        metadata={"event_type": "codebutler", "event_payload": {"key": "k1"}},
    )
    assert posted["message"]["username"] == "Coder" and posted["message"]["bot_id"]
    assert posted["message"]["metadata"]["event_payload"] == {"key": "k1"}
    echo = socket.event("message", lambda e: e.get("ts") == posted["ts"]).payload["event"]
    assert echo["subtype"] == "bot_message" and echo["thread_ts"] == root, echo
    assert "event_payload" not in echo["metadata"], "payloads are not part of events"
    web.reactions_add(channel=channel, timestamp=root, name="eyes")
    added = socket.event("reaction_added").payload["event"]
    assert added["item"] == {"type": "message", "channel": channel, "ts": root}, added
    [eyes] = web.reactions_get(channel=channel, timestamp=root, full=True)["message"]["reactions"]
    assert eyes == {"name": "eyes", "count": 1, "users": [bot_user]}, eyes
    # What looks like a host becomes a link, unless the app says that it is none.
    role = {"channel": channel, "thread_ts": root, "text": "ask @codebutler.pm about main.rs"}
    literal = web.chat_postMessage(**role, parse="none")["message"]["text"]
    assert literal == role["text"], literal
    linked = web.chat_postMessage(**role)["message"]["text"]
    assert "@<http://codebutler.pm|codebutler.pm>" in linked, linked
    web.chat_update(channel=channel, ts=posted["ts"], text="done")
    changed = socket.event("message", lambda e: e.get("subtype") == "message_changed")
    assert changed.payload["event"]["message"]["text"] == "done"
    assert changed.payload["event"]["message"]["edited"]["user"] == bot_user
    wish("delete_as", ts=wish("post_as", text="oops", thread=root))
    socket.event("message", lambda e: e.get("subtype") == "message_deleted")
    return root


def buttons(web, socket, channel, user, root):
    button = {
        "type": "button",
        "action_id": "plan:approve",
        "text": {"type": "plain_text", "text": "Approve"},
        "style": "primary",
        "value": "k2",
    }
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*The plan*"}},
        {"type": "actions", "block_id": "decide", "elements": [button]},
    ]
    plan = web.chat_postMessage(channel=channel, thread_ts=root, text="plan", blocks=blocks)
    action_ts = wish("click", ts=plan["ts"], action_id="plan:approve")
    click = socket.next(lambda r: r.type == "interactive", "click").payload
    assert click["type"] == "block_actions" and click["user"]["id"] == user, click
    assert click["container"]["message_ts"] == plan["ts"]
    assert click["container"]["thread_ts"] == root
    action = click["actions"][0]
    assert (action["action_id"], action["value"]) == ("plan:approve", "k2"), action
    assert (action["block_id"], action["action_ts"]) == ("decide", action_ts), action
    hook = WebhookClient(click["response_url"])
    assert hook.send(text="noted").status_code == 200
    assert hook.send(text="approved", replace_original=True).status_code == 200
    assert wish("buttons", ts=plan["ts"]) == []
    assert wish("ephemerals") == ["noted"]


def errors(web, channel, private, root, user):
    def post(**fields):
        return code_of(web.chat_postMessage, **{"channel": channel, "text": "x", **fields})

    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3000}}
    long = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
    divider = {"type": "divider"}
    assert post(channel="C404") == "channel_not_found"
    assert post(channel=private) == "channel_not_found"
    assert post(text="") == "no_text"
    assert post(blocks=[long]) == "invalid_blocks"
    assert post(blocks=[divider] * 51) == "invalid_blocks"
    assert post(blocks=[section] * 5) == "msg_blocks_too_long"
    assert post(attachments=[{"text": "x"}] * 101) == "too_many_attachments"
    assert post(thread_ts="1700000000.000001") == "thread_not_found"
    big = {"event_type": "t", "event_payload": {"x": "y" * 20000}}
    assert post(metadata=big) == "metadata_too_large"
    cut = web.chat_postMessage(channel=channel, text="x" * 40001)
    assert len(cut["message"]["text"]) == 40000 and cut["warning"] == "message_truncated"

    def update(**fields):
        return code_of(web.chat_update, **{"channel": channel, "text": "x", **fields})

    assert update(ts="1700000000.000001") == "message_not_found"
    assert update(ts=root) == "cant_update_message"
    assert update(ts=cut["ts"], text="x" * 4001) == "msg_too_long"

    def react(name, ts=root):
        return code_of(web.reactions_add, channel=channel, timestamp=ts, name=name)

    assert react("eyes") == "already_reacted"
    assert react("No Such") == "invalid_name"
    assert react("eyes", ts="1700000000.000001") == "message_not_found"
    remove = {"channel": channel, "timestamp": root, "name": "tada"}
    assert code_of(web.reactions_remove, **remove) == "no_reaction"
    replies = {"channel": channel, "ts": "1700000000.000001"}
    assert code_of(web.conversations_replies, **replies) == "thread_not_found"
    assert code_of(web.files_upload, content="x", channels=channel) == "method_deprecated"
    ephemeral = {"channel": channel, "user": "U404", "text": "x"}
    assert code_of(web.chat_postEphemeral, **ephemeral) == "user_not_in_channel"
    assert code_of(WebClient(base_url=API).auth_test) == "not_authed"
    assert code_of(WebClient(base_url=API, token="xoxb-no").auth_test) == "invalid_auth"
    assert code_of(web.apps_connections_open, app_token=BOT) == "not_allowed_token_type"
    assert code_of(web.api_call, api_method="no.such") == "unknown_method"
    assert web.users_info(user=user)["user"]["name"] == "ana"
    web.assistant_threads_setStatus(channel_id=channel, thread_ts=root, status="is thinking")
    assert wish("status", thread=root) == "is thinking"
    assert "chat:write" in web.auth_test().headers["x-oauth-scopes"]


def pages(web, channel, root):
    wanted = [wish("post_as", text=f"reply {n}", thread=root) for n in range(7)]
    found, cursor, sizes = [], None, []
    while True:
        page = web.conversations_replies(channel=channel, ts=root, limit=4, cursor=cursor)
        sizes.append(len(page["messages"]))
        found += [message["ts"] for message in page["messages"]]
        if not page["has_more"]:
            break
        cursor = page["response_metadata"]["next_cursor"]
    assert found[0] == root and found[-7:] == wanted and found == sorted(set(found)), found
    assert all(size <= 4 for size in sizes)
    late = web.conversations_replies(channel=channel, ts=root, oldest=wanted[4])["messages"]
    assert [message["ts"] for message in late] == [root, *wanted[5:]]
    late = web.conversations_replies(channel=channel, ts=root, oldest=wanted[4], inclusive=True)
    assert len(late["messages"]) == 4
    whole = web.conversations_replies(channel=channel, ts=root, include_all_metadata=True)
    keys = [m["metadata"]["event_payload"]["key"] for m in whole["messages"] if "metadata" in m]
    assert keys == ["k1"], keys
    history = web.conversations_history(channel=channel, limit=200)["messages"]
    assert history == sorted(history, key=lambda m: m["ts"], reverse=True)
    assert all(m["thread_ts"] == m["ts"] for m in history if "thread_ts" in m)
    assert next(m for m in history if m["ts"] == root)["reply_count"] >= 7
    assert code_of(web.conversations_history, channel=channel, cursor="x") == "invalid_cursor"


def files(web, socket, channel, root):
    content = bytes(range(256)) * 10
    done = web.files_upload_v2(
        channel=channel, thread_ts=root, filename="shot.png", content=content, title="A shot",
        initial_comment="look",
    )
    shared = socket.event("file_shared").payload["event"]
    assert shared["file_id"] == done["file"]["id"] and shared["channel_id"] == channel
    message = socket.event("message", lambda e: e.get("files")).payload["event"]
    assert message["text"] == "look" and message["thread_ts"] == root, message
    url = message["files"][0]["url_private"]
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {BOT}"})
    assert urllib.request.urlopen(request).read() == content
    file = web.files_info(file=shared["file_id"])["file"]
    [share] = file["shares"]["public"][channel]
    assert file["title"] == "A shot" and share["thread_ts"] == root, file
    assert share["ts"] == message["ts"] and file["channels"] == [channel], file


def streams(web, channel, root, user, team):
    """A message that grows, with Slack's own helper and without."""
    to = {"recipient_user_id": user, "recipient_team_id": team}
    start = {"channel": channel, "thread_ts": root}
    assert code_of(web.chat_startStream, **start) == "missing_recipient_user_id"
    lone = {"recipient_user_id": user}
    assert code_of(web.chat_startStream, **start, **lone) == "missing_recipient_team_id"
    assert code_of(web.chat_startStream, **start, **{**to, "recipient_team_id": "T404"}) == "team_not_found"
    stream = web.chat_stream(**start, **to, buffer_size=4)
    stream.append(markdown_text="**Hello** ")
    stream.append(markdown_text="there, ")
    stream.append(markdown_text="ana")
    ended = stream.stop(metadata={"event_type": "t", "event_payload": {"key": "k9"}})
    assert code_of(web.chat_stopStream, channel=channel, ts=ended["ts"]) == "message_not_in_streaming_state"

    task = {"type": "task_update", "id": "1", "title": "Read", "status": "in_progress"}
    begun = web.chat_startStream(**start, **to, task_display_mode="plan", chunks=[task])
    at = {"channel": channel, "ts": begun["ts"]}
    assert code_of(web.chat_update, **at, text="x") == "streaming_state_conflict"
    assert code_of(web.chat_delete, **at) == "cant_delete_message"
    assert code_of(web.chat_appendStream, **at, chunks=[{**task, "status": "done"}]) == "invalid_chunks"
    assert code_of(web.chat_appendStream, **at, chunks=[{**task, "title": "x" * 257}]) == "msg_too_long"
    both = {"markdown_text": "x", "chunks": [task]}
    assert code_of(web.chat_appendStream, **at, **both) == "cannot_provide_both_markdown_text_and_chunks"
    plan = {"type": "plan_update", "title": "Two steps"}
    web.chat_appendStream(**at, chunks=[{**task, "status": "complete"}, {**task, "id": "2"}, plan])
    web.chat_stopStream(**at)
    assert code_of(web.chat_appendStream, channel=channel, ts=root, chunks=[task]) == "message_not_owned_by_app"
    found = web.conversations_replies(channel=channel, ts=root, limit=200)["messages"]
    said = next(message for message in found if message["ts"] == ended["ts"])
    assert said["blocks"][0]["text"] == "**Hello** there, ana", said
    shown = next(message for message in found if message["ts"] == begun["ts"])["blocks"][0]
    assert shown["title"] == "Two steps" and [t["status"] for t in shown["tasks"]] == ["complete", "in_progress"]
    web.chat_delete(**at)


def unfurls(web, socket, channel, user):
    """Links to the app's domain are told of, and shown as the app says."""
    wish("show_links", domain="example.dev")
    link = "https://pages.example.dev/a?b=1"
    ts = wish("post_as", text=f"see {link} and https://other.example.org/")
    shared = socket.event("link_shared").payload["event"]
    assert shared["links"] == [{"domain": "example.dev", "url": link}], shared
    assert shared["message_ts"] == ts and shared["user"] == user, shared
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "A page"}}

    def unfurl(**fields):
        usual = {"channel": channel, "ts": ts, "unfurls": {link: {"blocks": [block]}}}
        return code_of(web.chat_unfurl, **{**usual, **fields})

    assert unfurl(unfurls={"https://evil.example.org/": {"blocks": [block]}}) == "cannot_unfurl_url"
    assert unfurl(unfurls={f"{link}&c": {"blocks": [block]}}) == "cannot_unfurl_message"
    assert unfurl(ts="1700000000.000001") == "cannot_find_message"
    assert unfurl() == "ok" and unfurl() == "ok"
    [message] = web.conversations_replies(channel=channel, ts=ts)["messages"]
    [shown] = message["attachments"]
    assert shown["is_app_unfurl"] and shown["blocks"][0]["text"]["text"] == "A page", shown


def limits(web, channel):
    wish("fail_next", method="chat.postMessage", times=2, retry_after=1)
    assert code_of(web.chat_postMessage, channel=channel, text="x") == "ratelimited"
    patient = WebClient(base_url=API, token=BOT)
    patient.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    begun = time.monotonic()
    assert patient.chat_postMessage(channel=channel, text="patience")["ok"]
    assert time.monotonic() - begun >= 1


def reconnects(web, socket, channel):
    wish("request_refresh")
    ts = wish("post_as", text="after the refresh")
    socket.event("message", lambda e: e["ts"] == ts)
    wish("wait_acked", key=ts)
    ts = wish("post_as", text="and again")
    socket.event("message", lambda e: e["ts"] == ts)
    wish("wait_acked", key=ts)
    wish("redeliver", key=ts)
    again = socket.event("message", lambda e: e["ts"] == ts)
    assert (again.retry_attempt, again.retry_reason) == (1, "timeout"), again.to_dict()
    socket.ack = False
    ts = wish("post_as", text="not acknowledged")
    first = socket.event("message", lambda e: e["ts"] == ts)
    socket.ack = True
    second = socket.event("message", lambda e: e["ts"] == ts)
    assert second.retry_attempt == 1
    assert second.payload["event_id"] == first.payload["event_id"]


def connections(web, socket):
    socket.client.close()
    wish("wait_disconnected")
    first = []
    opened = []
    for n in range(1, 12):
        url = web.apps_connections_open(app_token=APP)["url"]
        frames = queue.Queue()
        logger = logging.getLogger("quiet")
        logger.setLevel(logging.CRITICAL)
        opened.append((Connection(url, logger, on_message_listener=frames.put), ConnectionState()))
        connection, state = opened[-1]
        connection.connect()
        threading.Thread(target=connection.run_until_completion, args=[state], daemon=True).start()
        first.append(json.loads(frames.get(timeout=10)))
    assert [frame["type"] for frame in first] == ["hello"] * 10 + ["disconnect"], first
    assert [frame["num_connections"] for frame in first[:10]] == list(range(1, 11))
    assert first[10]["reason"] == "too_many_websockets"
    for connection, state in opened:
        state.terminated = True
        connection.close()


def main():
    web = WebClient(base_url=API, token=BOT)
    me = web.auth_test()
    world = wish("world")
    channel, user = world["channel"], world["user"]
    socket = Socket(web)
    checks = [
        ("messages", lambda: messages(web, socket, channel, user, me["user_id"])),
        ("buttons", lambda: buttons(web, socket, channel, user, root)),
        ("errors", lambda: errors(web, channel, world["private"], root, user)),
        ("pages", lambda: pages(web, channel, root)),
        ("files", lambda: files(web, socket, channel, root)),
        ("streams", lambda: streams(web, channel, root, user, me["team_id"])),
        ("unfurls", lambda: unfurls(web, socket, channel, user)),
        ("limits", lambda: limits(web, channel)),
        ("reconnects", lambda: reconnects(web, socket, channel)),
        ("connections", lambda: connections(web, socket)),
    ]
    for name, check in checks:
        print(f"slack_sdk: {name}", file=sys.stderr, flush=True)
        if name == "messages":
            root = check()
        else:
            check()


main()
