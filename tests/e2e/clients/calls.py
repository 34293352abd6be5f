"""What the openai and anthropic SDKs really send: every kind of call once, through the gateway at argv[1].

Prints a JSON line a call: its name, the SHA-256 of the body as it left the SDK, and what came back.
"""

import hashlib
import io
import json
import sys

import anthropic
import openai

sent = {}


def remember(request):
    sent["sha256"] = hashlib.sha256(request.read()).hexdigest()


def report(name, answer):
    print(json.dumps({"call": name, "sha256": sent.pop("sha256"), "answer": answer}), flush=True)


def main(gateway):
    hooks = {"request": [remember]}
    client = openai.OpenAI(
        base_url=gateway + "/v1", api_key="none", max_retries=0, http_client=openai.DefaultHttpxClient(event_hooks=hooks)
    )
    turns = [{"role": "user", "content": "Grüße, \"quoted\", \\ and \u2028 " * 2000}]

    chat = client.chat.completions.create(model="chat-model", messages=turns)
    report("chat", chat.choices[0].message.content)

    stream = client.chat.completions.create(model="chat-model", messages=turns, stream=True)
    report("chat stream", "".join(chunk.choices[0].delta.content or "" for chunk in stream))

    embedding = client.embeddings.create(model="embed-model", input=["a", "b"])
    report("embeddings", len(embedding.data))

    audio = io.BytesIO(b"RIFF" + bytes(range(256)) * 2000)
    audio.name = "model.wav"
    report("transcription", client.audio.transcriptions.create(model="audio-model", file=audio).text)

    picture = io.BytesIO(b"\x89PNG\r\n\r\n--" + bytes(range(256)) * 500)
    picture.name = "picture.png"
    edited = client.images.edit(model="image-model", image=picture, prompt="a hat")
    report("image edit", edited.data[0].b64_json)

    claude = anthropic.Anthropic(
        base_url=gateway, api_key="none", max_retries=0, http_client=anthropic.DefaultHttpxClient(event_hooks=hooks)
    )
    message = claude.messages.create(model="claude-model", max_tokens=10, messages=[{"role": "user", "content": "Hello"}])
    report("messages", message.content[0].text)

    counted = claude.messages.count_tokens(model="claude-model", messages=[{"role": "user", "content": "Hello"}])
    report("count_tokens", counted.input_tokens)

    try:
        client.chat.completions.create(model="forbidden-model", messages=turns)
    except openai.PermissionDeniedError as error:
        report("refused by openai", error.code)
    try:
        claude.messages.create(model="forbidden-model", max_tokens=10, messages=[{"role": "user", "content": "Hello"}])
    except anthropic.PermissionDeniedError as error:
        report("refused by anthropic", error.body["error"]["type"])


main(sys.argv[1])
