"""OpenAPI documents: what a client is generated from, or a gateway imports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.wire import v1_0
from tests.conftest import BASE_URL, new_key

SHOP = """
from dataclasses import dataclass
from datetime import date
from a2a_lambda import skill

@dataclass
class Line:
    article: str
    count: int = 1

@dataclass
class Order:
    lines: list[Line]
    note: str | None = None
    since: date | None = None

@skill("购买")
def buy_here(order: Order):
    return "bought"

@skill
def buy(turn, order: Order, express: bool = False):
    return f"{order.lines[0].count} of {order.lines[0].article}"

@skill
def hello(turn):
    return "hello"
"""

CARD = """
name: Shop
description: Sells.
version: 0.1.0
{fields}
skills:
  - {{ id: buy, name: Buy, description: Orders something. }}
  - {{ id: hello, name: Hello, description: Greets., examples: [Good morning] }}
  - {{ id: 购买, name: 购买, description: 下单。 }}
"""


def shop(settings: Settings, folder: Path, **agents: str) -> TestClient:
    """A deployment with shops, by name; each has fields of its card."""
    for name, fields in agents.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "agent.py").write_text(SHOP)
        (folder / name / "card.yaml").write_text(CARD.format(fields=fields))
    return TestClient(create_app(Kit(settings.model_copy(update={"agents": folder}))), base_url=BASE_URL)


def key_of(client: TestClient) -> str:
    app: Any = client.app
    return new_key(app.state.kit)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a document."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def test_the_document_has_every_operation_of_the_version(settings: Settings, tmp_path: Path) -> None:
    capabilities = (
        "capabilities: { streaming: true, pushNotifications: true }\nextended: { description: More. }"
    )
    document = shop(settings, tmp_path, shop=capabilities).get("/openapi.json").json()
    operations = {
        (verb.upper(), path.replace("{id}", "{}"))
        for path in document["paths"]
        for verb in document["paths"][path]
    }
    routes = {(route.verb, "/" + route.path.replace("{id}", "{}")) for route in v1_0.ROUTES}
    assert operations == routes - {("POST", "/tasks/{}:subscribe")}  # which is the same as GET


def test_an_agent_that_takes_files_takes_uploads(settings: Settings, tmp_path: Path) -> None:
    document = (
        shop(settings, tmp_path, shop="defaultInputModes: [text/plain, image/*]").get("/openapi.json").json()
    )
    operation = document["paths"]["/uploads"]["post"]
    assert operation["operationId"] == "createUpload"
    assert operation["security"]


def test_the_document_has_only_what_the_card_offers(settings: Settings, tmp_path: Path) -> None:
    fields = "capabilities: { streaming: false, pushNotifications: false }"
    document = shop(settings, tmp_path, shop=fields).get("/openapi.json").json()
    assert [*document["paths"]] == ["/message:send", "/tasks", "/tasks/{id}", "/tasks/{id}:cancel"]


def test_each_example_is_a_message_that_its_skill_answers(settings: Settings, tmp_path: Path) -> None:
    client = shop(settings, tmp_path, shop="")
    headers = {"X-API-Key": key_of(client)}
    document = client.get("/a2a/shop/openapi.json").json()
    body = document["paths"]["/message:send"]["post"]["requestBody"]["content"]["application/json"]
    texts = {}
    for skill, example in body["examples"].items():
        url = f"{document['servers'][0]['url']}/message:send"
        task = client.post(url, json=example["value"], headers=headers).json()["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        texts[skill] = task["artifacts"][0]["parts"][0]["text"]
    assert texts == {"buy": "1 of text", "hello": "hello", "购买": "bought"}


def test_the_parameters_of_skills_are_schemas(settings: Settings, tmp_path: Path) -> None:
    document = shop(settings, tmp_path, one="default: true", two="").get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert schemas["BuyArguments"]["properties"]["order"]["$ref"] == "#/components/schemas/BuyArguments.Order"
    assert schemas["BuyArguments.Line"]["required"] == ["article"]
    assert {"TwoBuyArguments.Line", "Skill1Arguments", "TwoSkill1Arguments"} <= schemas.keys()
    assert schemas["BuyArguments.Order"]["properties"]["note"] == {"type": "string"}
    # A generator names a type by its title, so that two types would have one name.
    assert not [part for part in walk(schemas) if isinstance(part.get("title"), str)]
    for part in walk(document):
        if "$ref" in part:
            assert part["$ref"].removeprefix("#/components/schemas/") in schemas
    assert "`BuyArguments`" in document["paths"]["/message:send"]["post"]["description"]


def test_agentcore_gateway_can_import_it(client: TestClient) -> None:
    """It takes no alternatives of schemas, and names a tool by the operation's id."""
    document = client.get("/openapi.json").json()
    assert not {key for part in walk(document) for key in part} & {"anyOf", "oneOf", "allOf"}
    identities = [
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    ]
    assert len({*identities}) == len(identities)
    assert all(identity.replace("_", "").isalnum() and len(identity) <= 64 for identity in identities)
    assert document["servers"] == [{"url": BASE_URL}]


def test_callers_sign_in_as_the_card_says(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["components"]["securitySchemes"]["apiKey"]["name"] == "X-API-Key"
    assert {"apiKey": []} in document["paths"]["/tasks"]["get"]["security"]


def test_a_private_agent_shows_itself_with_a_key_only(settings: Settings, tmp_path: Path) -> None:
    client = shop(settings, tmp_path, open="default: true", closed="public: false")
    assert "closed" not in client.get("/openapi.json").text
    assert client.get("/a2a/closed/openapi.json").status_code == 401
    answer = client.get("/a2a/closed/openapi.json", headers={"X-API-Key": key_of(client)})
    assert answer.json()["servers"] == [{"url": f"{BASE_URL}/a2a/closed"}]
    assert answer.headers["Cache-Control"].startswith("private")


def test_a_client_asks_whether_it_has_changed(client: TestClient) -> None:
    etag = client.get("/openapi.json").headers["ETag"]
    assert client.get("/openapi.json", headers={"If-None-Match": etag}).status_code == 304
    two_lines = [("If-None-Match", '"other"'), ("If-None-Match", etag)]
    assert client.get("/openapi.json", headers=two_lines).status_code == 304
    assert client.head("/openapi.json").status_code == 200


@pytest.mark.parametrize(
    ("path", "status"), [("/a2a/nobody/openapi.json", 404), ("/tasks/openapi.json", 401)]
)
def test_other_paths_are_none(client: TestClient, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_the_document_can_only_be_read(client: TestClient) -> None:
    answer = client.post("/openapi.json")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


ODD = """
from typing import Annotated, Any, Literal
from pydantic import BaseModel, Field, WithJsonSchema
from a2a_lambda import skill

class LineItem(BaseModel):
    title: str
    default: int = 1

class Line_Item(BaseModel):
    other: str

class Node(BaseModel):
    name: str
    children: list["Node"] = []
    next: "Node | None" = None

@skill
def odd(
    either: Annotated[Any, WithJsonSchema({"type": ["string", "number"]})],
    nothing: Annotated[Any, WithJsonSchema({"type": "array", "items": False})],
    one: LineItem,
    two: Line_Item,
    tree: Node,
    pair: tuple[int, str],
    count: Annotated[int, Field(ge=10)],
    given: Annotated[dict[str, str], Field(examples=[{"title": "Dune", "$ref": "#/$defs/LineItem"}])],
    kind: Literal["a", "b"] = "b",
):
    return "fits"
"""

SAMPLES = {
    **{"either": "text", "nothing": [], "one": {"title": "text", "default": 1}, "two": {"other": "text"}},
    **{"tree": {"name": "text", "children": []}, "pair": [1, "text"], "count": 10, "kind": "b"},
    "given": {"title": "Dune", "$ref": "#/$defs/LineItem"},
}


def test_an_odd_agent_is_described_too(settings: Settings, tmp_path: Path) -> None:
    for name in ("a-b", "a_b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(ODD)
        about = f"name: N\ndescription: D.\nversion: '1'\ndefault: {str(name == 'c').lower()}\n"
        skills = "skills:\n  - { id: odd, name: Odd, description: D. }\n"
        (tmp_path / name / "card.yaml").write_text(about + skills)
    kit = Kit(settings.model_copy(update={"agents": tmp_path}))
    client = TestClient(create_app(kit), base_url=BASE_URL)
    document = client.get("/openapi.json").json()
    identities = [item["operationId"] for path in document["paths"].values() for item in path.values()]
    assert len({*identities}) == len(identities)
    schemas = document["components"]["schemas"]
    properties = schemas["OddArguments"]["properties"]
    one, two = (schemas[properties[name]["$ref"].rpartition("/")[2]] for name in ("one", "two"))
    assert ([*one["properties"]], [*two["properties"]]) == (["title", "default"], ["other"])
    assert properties["given"]["examples"] == [SAMPLES["given"]]
    post = document["paths"]["/message:send"]["post"]
    [example] = post["requestBody"]["content"]["application/json"]["examples"].values()
    [part] = example["value"]["message"]["parts"]
    assert part["data"] == SAMPLES
    answer = client.post("/message:send", json=example["value"], headers={"X-API-Key": key_of(client)})
    task = answer.json()["task"]
    assert task["artifacts"][0]["parts"] == [{"text": "fits"}], task


def test_a_hidden_skill_is_not_described(settings: Settings, tmp_path: Path) -> None:
    buy = "{ id: buy, name: Buy, description: Orders something. }"
    client = shop(settings, tmp_path, shop=f"extended: {{ skills: [{buy}] }}")
    card = tmp_path / "shop" / "card.yaml"
    card.write_text(card.read_text().replace(f"  - {buy}\n", ""))
    client = TestClient(create_app(Kit(client.app.state.kit.settings)), base_url=BASE_URL)  # type: ignore[attr-defined]
    text = client.get("/openapi.json").text
    assert "hello" in text
    assert "buy" not in text.lower()
