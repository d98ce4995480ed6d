"""Drives the testbed's model server with the official openai client. Exits 0 if every check held.

The script it meets: a 429, then a Read call; a text; a broken stream, then a text; an error with status
200, half an answer, a refusal, then a text with what it was thought out of.
"""

import json
import os

from openai import AuthenticationError, BadRequestError, OpenAI

BASE = os.environ["OPENAI_BASE_URL"]
MODEL = "scripted/coder"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "Read",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def refused(error, call):
    try:
        call()
    except error as refusal:
        return refusal
    raise SystemExit(f"not refused with {error.__name__}")


def strict(client):
    """What some provider refuses is refused here, before any of the script is played."""
    user = {"role": "user", "content": "hello"}
    call = lambda id: {
        "role": "assistant", "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}"}}],
    }
    answer = lambda id: {"role": "tool", "tool_call_id": id, "content": "x"}
    mark = {"cache_control": {"type": "ephemeral"}}
    part = {"type": "text", "text": "x", **mark}
    thought = {"type": "reasoning.text", "text": "hm", "signature": "forged", "format": "anthropic-claude-v1"}
    for told, messages, more in [
        ("Unrecognized request argument", [user], {"extra_body": {"provider_options": {}}}),
        ("Extra inputs are not permitted", [{**user, **mark}], {}),
        ("should match pattern", [user, call("functions.Read:0"), answer("functions.Read:0")], {}),
        ("string too long", [user, call("x" * 65), answer("x" * 65)], {}),
        ("Found 5", [{"role": "user", "content": [part] * 5}], {}),
        ("empty text blocks", [{"role": "user", "content": [{**part, "text": ""}]}], {}),
        ("Invalid `signature`", [user, {"role": "assistant", "content": "x", "reasoning_details": [thought]}, user], {}),
        ("tools.0.cache_control", [user], {"tools": [{**TOOLS[0], **mark}]}),
    ]:
        error = refused(BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=messages, **more))
        assert told in str(error), (told, error)


def main():
    client = OpenAI(max_retries=2)
    [model] = client.models.list()
    assert model.id == MODEL and model.context_length == 200000, model
    assert float(model.pricing["prompt"]) > 0 and "tools" in model.supported_parameters, model
    messages = [{"role": "user", "content": "please fix it"}]
    ask = lambda **more: client.chat.completions.create(
        model=MODEL, messages=messages, tools=TOOLS, **more
    )

    # The client waits out the 429 by itself.
    answer = ask()
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("Read", {"path": "a.rs"})
    assert answer.usage.total_tokens == 12 and answer.usage.cost == 0.25
    messages.append(choice.message)
    error = refused(BadRequestError, ask)
    assert "did not have response messages" in str(error), error
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "fn main() {}"})
    answer = ask()
    assert answer.choices[0].message.content == "It is empty."

    messages += [answer.choices[0].message, {"role": "user", "content": "tell me more"}]
    streamed = lambda: list(ask(stream=True, stream_options={"include_usage": True}))
    # Cut off in the middle: an error, not half an answer that looks whole.
    refused(Exception, streamed)
    chunks = streamed()
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "There is nothing more to say."
    assert chunks[-1].usage.completion_tokens == 6

    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "and now?"}]
    failed = ask()
    assert failed.choices is None and failed.error["code"] == 502, failed
    cut = ask().choices[0]
    assert cut.finish_reason == "length" and "This is the last".startswith(cut.message.content), cut
    declined = ask().choices[0].message
    assert declined.content is None and declined.refusal, declined
    last = ask()
    assert last.choices[0].message.content == "This is the last word."
    assert last.choices[0].message.reasoning_details[0]["signature"], last
    assert last.usage.prompt_tokens_details.cached_tokens == 30, last.usage
    assert last.usage.completion_tokens_details.reasoning_tokens == 4, last.usage

    error = refused(
        BadRequestError, lambda: client.chat.completions.create(model="gpt", messages=messages)
    )
    assert "gpt is not a valid model ID" in str(error), error
    strict(client)
    stranger = OpenAI(api_key="sk-wrong", base_url=BASE, max_retries=0)
    refused(
        AuthenticationError,
        lambda: stranger.chat.completions.create(model=MODEL, messages=messages),
    )


main()
