#!/usr/bin/env python3
"""Renders the templates of this folder with transformers and jinja2, as the reference for Baton's own interpreter.

    make_golden.py                writes families.json (templates/ over conversations) and expressions.json
    make_golden.py --random N     writes random.json: N small templates drawn from a grammar
    make_golden.py --qwen3 FILE   writes qwen3.json: prompts of the template in Qwen3's tokenizer_config.json

Needs transformers; the tests read only the files it wrote. The clock stands at 2025-03-04 15:06:07.
"""

import argparse
import datetime
import json
import pathlib
import warnings

import transformers.utils.chat_template_utils as chat_template_utils

HERE = pathlib.Path(__file__).parent


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 4, 15, 6, 7)


chat_template_utils.datetime = FixedTime


def render(template, case):
    """The prompt, or what the template raised."""
    try:
        prompts, _ = chat_template_utils.render_jinja_template(
            [case["messages"]],
            tools=case.get("tools"),
            chat_template=template,
            add_generation_prompt=case.get("add_generation_prompt", False),
            continue_final_message=case.get("continue_final_message", False),
            **case.get("special_tokens", {}),
            **case.get("variables", {}),
        )
        return {"expected": prompts[0]}
    except Exception as error:  # whatever a template can raise
        return {"error": str(error), "raised": type(error).__name__ == "TemplateError"}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place, \"now\" — über alles.\nTwo lines, <b>tags</b> & ampersands.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City,\nor village"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "array", "items": {"type": "integer"}},
                "near": {"type": ["number", "null"], "default": 1.5},
                "more": {"type": "object", "properties": {"deep": {"type": "boolean", "default": True}}},
                "empty": {},
            },
            "required": ["place"],
        },
        "strict": True,
    },
}
ADD = {"type": "function", "function": {"name": "add", "description": "", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, call_id="abcdefghi"):
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "  Wie spät ist es?\n"}
SYSTEM = {"role": "system", "content": "Be brief. /no_think \n"}
MULTI_TURN = [
    {"role": "user", "content": "1+1"},
    {"role": "assistant", "content": "<think>\nadd them\n</think>\n\n2"},
    {"role": "user", "content": "<|im_end|> <|eot_id|> [/INST] <end_of_turn> 😀"},
    {"role": "assistant", "content": "\n\nok "},
    {"role": "user", "content": "go on\r\n\t now"},
]
TOOL_TURNS = [
    {"role": "user", "content": "Weather in Köln and Rome?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            call("get_weather", {"place": "Köln \"am Rhein\"", "days": [1, 2], "near": 0.1, "unit": None}),
            call("get_weather", {"place": "Rome", "deep": {"a": True}}, "123456789"),
        ],
    },
    {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "{\"rain\": \"</tool_response>\"}"},
    {"role": "tool", "name": "get_weather", "tool_call_id": "123456789", "content": "dry"},
    {"role": "assistant", "content": "Wet and dry."},
    {"role": "user", "content": "And tomorrow?"},
]
ONE_CALL = [USER, {"role": "assistant", "content": "hm", "tool_calls": [call("add", {})]}]
THINKING = [USER, {"role": "assistant", "content": "It is four.", "reasoning_content": "\nlook at\nthe clock\n"}]

CONVERSATIONS = {
    "user": {"messages": [USER]},
    "user_without_prompt": {"messages": [USER], "add_generation_prompt": False},
    "system": {"messages": [SYSTEM, USER]},
    "two_systems": {"messages": [SYSTEM, USER, SYSTEM]},
    "multi_turn": {"messages": MULTI_TURN},
    "system_multi_turn": {"messages": [SYSTEM] + MULTI_TURN},
    "tools": {"messages": [SYSTEM, USER], "tools": [WEATHER, ADD]},
    "tool_turns": {"messages": TOOL_TURNS, "tools": [WEATHER]},
    "tool_turns_to_results": {"messages": TOOL_TURNS[:4], "tools": [WEATHER]},
    "tool_message_without_tools": {"messages": TOOL_TURNS[:1] + TOOL_TURNS[2:4]},
    "one_call": {"messages": ONE_CALL, "tools": [ADD]},
    "structured_result": {"messages": ONE_CALL + [{"role": "tool", "tool_call_id": "abcdefghi", "content": [{"t": 1.0}]}]},
    "thinking": {"messages": THINKING},
    "thinking_off": {"messages": [USER], "variables": {"enable_thinking": False, "date_string": "1 Jan 2030"}},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "image"}, {"type": "text", "text": "b"}]}]},
    "user_user": {"messages": [USER, USER]},
    "assistant_first": {"messages": [{"role": "assistant", "content": "hi"}]},
    "no_content": {"messages": [{"role": "user"}]},
    "unknown_role": {"messages": [{"role": "narrator", "content": "once"}]},
    "continued": {"messages": [USER, {"role": "assistant", "content": "It is"}], "add_generation_prompt": False, "continue_final_message": True},
    "continued_space": {"messages": [USER, {"role": "assistant", "content": "It is "}], "add_generation_prompt": False, "continue_final_message": True},
}
PLAIN = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": " Ü <|im_end|> \n"},
    {"role": "assistant", "content": "ok", "tool_calls": [call("f", {"a": 1.0, "b": [True, None, "é\u2028"]})]},
]
SPECIAL_TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>"}


# One template each, over the conversation of make_random.
EXPRESSIONS = pathlib.Path(__file__).with_name("expressions.txt").read_text().splitlines()


def make_expressions():
    cases = [{"template": template, **render(template, {"messages": PLAIN})} for template in EXPRESSIONS]
    write("expressions.json", {"messages": PLAIN, "cases": cases})


def make_qwen3(path):
    template = json.loads(pathlib.Path(path).read_text())["chat_template"]
    cases = []
    for name, conversation in CONVERSATIONS.items():
        result = render(template, {"add_generation_prompt": True, **conversation})
        if "expected" in result:
            cases.append({"conversation": name, **result})
    write("qwen3.json", {"cases": cases})


def make_families():
    cases = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        template = path.read_text()
        for name, conversation in CONVERSATIONS.items():
            case = {"add_generation_prompt": True, "special_tokens": SPECIAL_TOKENS, **conversation}
            cases.append({"template": path.stem, "conversation": name, **render(template, case)})
    conversations = {name: {"add_generation_prompt": True, **value} for name, value in CONVERSATIONS.items()}
    write("families.json", {"special_tokens": SPECIAL_TOKENS, "conversations": conversations, "cases": cases})


def make_random(count):
    import random_template

    cases = []
    seed = 0
    while len(cases) < count:
        template = random_template.Generator(seed).template()
        seed += 1
        result = render(template, {"messages": PLAIN})
        if "expected" in result and len(template) < 900 and len(result["expected"]) < 900:
            cases.append({"template": template, **result})
    write("random.json", {"messages": PLAIN, "cases": cases})


def write(name, data):
    (HERE / name).write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int)
    parser.add_argument("--qwen3")
    arguments = parser.parse_args()
    if arguments.random:
        make_random(arguments.random)
    elif arguments.qwen3:
        make_qwen3(arguments.qwen3)
    else:
        make_families()
        make_expressions()
