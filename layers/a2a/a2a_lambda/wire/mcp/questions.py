"""A question of an agent as an elicitation, and its answer as a message.

Source: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from collections.abc import Mapping, Sequence

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import CHOICES, FILLS, Json, Task, TaskState, text_of
from a2a_lambda.wire.mcp.tools import Tool

ANSWER_FIELD = "answer"
"""Field of the form, if the question fills no parameter."""

FLAT_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}
"""Types of a field, and those of its default in Python."""

FLAT_KEYWORDS = ("type", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "default")
"""What a field of a form may have, besides its format."""

FORM_FORMATS = ("date", "date-time", "email", "uri")
"""Formats that a field of a form may have."""

DECLINED = "The user declined to answer."
CANCELED = "The user closed the question without an answer."

REFUSAL_TEXTS = {"decline": DECLINED, "cancel": CANCELED}
"""What the skill hears, by the action of a client whose user does not answer."""


def question_text(task: Task) -> str:
    """The text of the question that a task asks."""
    message = task["status"].get("message")
    return text_of(message["parts"]) if message is not None else ""


def question_key(task: Task) -> str:
    """Identifies the question within its task."""
    message = task["status"].get("message")
    return message["messageId"] if message is not None else ""


def is_asked_by_form(task: Task, *, shows_forms: bool) -> bool:
    """Whether a task's question is a form for the user. Credentials must not go through a form, and a client
    that cannot show one gets the question in words. shows_forms: the client can."""
    return shows_forms and task["status"]["state"] == TaskState.INPUT_REQUIRED


def filled_parameter(task: Task) -> str | None:
    """The parameter that the answer to a task's question is for, if it is for one."""
    message = task["status"].get("message")
    name: str | None = None if message is None else message.get("metadata", {}).get(FILLS)
    return name


def choices_of(task: Task) -> Sequence[str]:
    """The answers that a task's question offers."""
    message = task["status"].get("message")
    choices: Sequence[str] = () if message is None else message.get("metadata", {}).get(CHOICES) or ()
    return choices


def elicitation(task: Task, tool: Tool | None) -> dict[str, Json]:
    """The request to ask the user."""
    name = filled_parameter(task) or ANSWER_FIELD
    parameter = tool.parameters.get(name) if tool is not None else None
    field: dict[str, Json] = {"type": "string"}  # a form is flat, so a parameter that is not becomes a string
    if isinstance(parameter, dict) and parameter.get("type") in FLAT_TYPES:
        field = {keyword: value for keyword, value in parameter.items() if keyword in FLAT_KEYWORDS}
        if parameter.get("format") in FORM_FORMATS:
            field["format"] = parameter["format"]
    choices = choices_of(task)
    if choices and field["type"] != "boolean":  # choices are texts, whatever the parameter's type
        texts: dict[str, Json] = {
            keyword: field[keyword] for keyword in ("description", "default") if keyword in field
        }
        field = {**texts, "type": "string", "enum": list(choices)}
        if field.get("default") not in choices:
            field.pop("default", None)
    if not isinstance(field.get("default"), FLAT_TYPES[field["type"]]):  # that of a decimal is a string, too
        field.pop("default", None)
    schema = {"type": "object", "properties": {name: field}, "required": [name]}
    text = question_text(task) or "Please answer."
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": text, "requestedSchema": schema},
    }


def is_refusal(response: Json) -> bool:
    """Whether the user refused to answer."""
    # A client may send an action that cannot be the key of a mapping.
    return isinstance(response, dict) and response.get("action") in list(REFUSAL_TEXTS)


def is_empty(response: Json) -> bool:
    """Whether the user sent the form without filling it in. A field that is null has no value."""
    if not isinstance(response, dict) or response.get("action") != "accept":
        return False
    content = response.get("content")
    return not content or (isinstance(content, dict) and all(value is None for value in content.values()))


def answer_of(response: Json, name: str, path: str) -> str:
    """What the user said, in words. Raises InvalidParams.

    name: the field that was asked for. Other fields are ignored, but a form's only field is the answer,
        whatever its name.
    """
    if is_refusal(response):
        return REFUSAL_TEXTS[response["action"]]
    if not isinstance(response, dict) or response.get("action") != "accept":
        raise InvalidParams(f"{path}.action must be accept, decline or cancel", path=path)
    content = response.get("content")
    if isinstance(content, dict) and content.get(name) is not None:
        value = content[name]
    elif isinstance(content, dict) and len(content) == 1:
        [value] = content.values()
    else:
        raise InvalidParams(f"{path}.content must have the field {name!r}", path=path)
    return value if isinstance(value, str) else strictjson.dumps(value).decode()
