"""The JSON Schema of card.yaml, with which editors complete and check it: schemas/card.json.

python -m tools.fork.card_schema writes it. The kit itself reads no schema: pydantic checks cards.
"""

import json
import sys
from pathlib import Path
from typing import Any

from a2a_lambda.agent.card_file import LEVELS
from a2a_lambda.protocol.card import Card

PATH = Path("schemas/card.json")

DESCRIPTIONS = {
    "name": "Name of the agent, as people see it.",
    "description": "What the agent does. Other agents read this to choose one.",
    "version": "Version of your agent, in quotes if it looks like a number.",
    "provider": "Who offers the agent.",
    "provider.organization": "Name of the organization.",
    "provider.url": "Its web page.",
    "documentationUrl": "A page for the agent's users.",
    "iconUrl": "An icon of the agent.",
    "defaultInputModes": "Media types that the agent accepts, such as text/plain or image/*.",
    "defaultOutputModes": "Media types that the agent returns.",
    "skills": "What the agent can do. Each has a function with @skill in agent.py.",
    "skills.id": "The function's name with - for _, or the id given to @skill.",
    "skills.name": "Name of the skill, as people see it.",
    "skills.description": "What the skill does.",
    "skills.tags": "Keywords for finding the skill. By default, its name.",
    "skills.examples": "Messages that the skill answers.",
    "skills.inputModes": "Media types of this skill, if they differ from the agent's.",
    "skills.outputModes": "Media types that this skill returns, if they differ from the agent's.",
    "skills.durable": "A turn of this skill may take days; see the card's field durable.",
    "skills.mcp": "MCP clients may call the skill as a tool.",
    "skills.annotations": "MCP hints, which clients may show, or use to decide whether to ask before a call.",
    "skills.annotations.title": "Name of the tool for people, if it differs from the skill's.",
    "skills.annotations.readOnlyHint": "It changes nothing.",
    "skills.annotations.destructiveHint": "It may delete or overwrite something.",
    "skills.annotations.idempotentHint": "A second call with the same arguments changes nothing more.",
    "skills.annotations.openWorldHint": "It reaches systems outside of the agent, such as the web.",
    "capabilities": "What the agent offers besides a plain call.",
    "capabilities.streaming": "Clients may get the answer as a stream.",
    "capabilities.pushNotifications": "Clients may register a webhook.",
    "extensions": "Extensions of A2A that the agent supports. Alibaba's two are declared automatically.",
    "extensions.uri": "URI of the extension.",
    "extensions.description": "How the agent uses it.",
    "extensions.required": "A client that does not activate the extension is refused.",
    "extensions.params": "Parameters of the extension.",
    "extended": "What callers with a key see in addition.",
    "extended.description": "Description for callers with a key.",
    "extended.skills": "Skills that the public card does not show.",
    "schedules": "Times at which the agent starts by itself; make fire lists them.",
    "schedules.id": "Name of the schedule, for make fire.",
    "schedules.cron": "Minute, hour, day, month and weekday, such as 0 22 * * 1-5.",
    "schedules.timezone": "Time zone of cron, such as Asia/Shanghai; UTC without it.",
    "schedules.message": "Text that the agent gets.",
    "schedules.skill": "Id of the skill to call; without it, as for any message.",
    "schedules.arguments": "Arguments of the skill, as strings.",
    "schedules.owner": "Owner of the tasks, who can list them with a key.",
    "schedules.webhook": "URL that gets a push notification of each task.",
    "schedules.token": "Secret that is sent to the webhook, so that it can recognize the sender.",
    "schedules.catch_up_minutes": "Minutes by which a start may be late after an outage.",
    "scopes": "Scopes that a caller's token needs; callers with a key need none.",
    "background": "The worker runs the agent's turns: up to fifteen minutes, without a client that waits.",
    "durable": "A turn may take days: its skill has steps, pauses and waits. See docs/long-running.md.",
    "mcp": "MCP clients may call the agent's skills as tools.",
    "public": "Whether the card can be read without a key.",
    "default": "Whether the agent answers at the root of the API.",
}
"""By field. Fields of extended.skills are those of skills."""


def schema() -> dict[str, Any]:
    """The schema of a card, with descriptions."""
    document = Card.model_json_schema()
    for level, model in LEVELS.items():
        if level == "extended.skills":  # the same as skills
            continue
        definition = document["$defs"][model.__name__] if level else document
        definition.pop("description", None)  # a docstring, for readers of the code
        for name, field in definition["properties"].items():
            field["description"] = DESCRIPTIONS[f"{level}.{name}" if level else name]
            field.pop("title", None)
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "card.yaml"
    return document


def schema_json() -> str:
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema_json(), "utf-8")
    sys.exit(0)
