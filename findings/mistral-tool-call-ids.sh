#!/usr/bin/env bash
# Mistral's own reader of chat requests (PyPI mistral-common) refuses a whole conversation for the sake of the id of a
# tool call that is not exactly nine letters and digits, though OpenAI's format, and most servers, take and make ids of
# any form (`call_…` with 24 characters, `functions.Read:0`, a UUID). The same rule is in the chat templates of its
# models, so that servers which render those (llama.cpp, vLLM) refuse what another model's answer left in a conversation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check mistral-common==1.13.1
"$folder/venv/bin/python" - <<'PY'
import sys
from importlib.metadata import version

from mistral_common.protocol.instruct.messages import AssistantMessage, ToolMessage, UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.tool_calls import Function, FunctionCall, Tool, ToolCall
from mistral_common.protocol.instruct.validator import MistralRequestValidatorV3

print("mistral-common", version("mistral-common"))
tool = Tool(function=Function(name="Read", parameters={"type": "object", "properties": {}}))


def refusal(call_id):
    call = ToolCall(id=call_id, function=FunctionCall(name="Read", arguments="{}"))
    messages = [
        UserMessage(content="Read it."),
        AssistantMessage(content="", tool_calls=[call]),
        ToolMessage(tool_call_id=call_id, content="done"),
    ]
    try:
        MistralRequestValidatorV3().validate_request(
            ChatCompletionRequest(messages=messages, tools=[tool], model="m")
        )
        return None
    except Exception as error:
        return str(error)


seen = {name: refusal(name) for name in ["a1B2c3D4e", "call_0123456789abcdef01234567", "toolu_01"]}
for name, why in seen.items():
    print(f"{name}: {why or 'taken'}")
nine, openai, short = seen.values()
same = nine is None and "length of 9" in (openai or "") and "length of 9" in (short or "")
sys.exit(0 if same else 1)
PY
