"""The API: its routes, its stage, its own answers."""

import json
import re
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.template.resources import of_type


def test_routes(paths: Any) -> None:
    assert {path: sorted(methods) for path, methods in paths.items()} == {
        "/": ["x-amazon-apigateway-any-method"],
        "/{proxy+}": ["x-amazon-apigateway-any-method"],
        "/.well-known/{proxy+}": ["x-amazon-apigateway-any-method"],
    }
    functions = {
        path: json.dumps(method["x-amazon-apigateway-integration"]["uri"])
        for path, methods in paths.items()
        for method in methods.values()
    }
    assert "ApiFunction" in functions["/.well-known/{proxy+}"]
    assert "RpcFunction" in functions["/"]
    assert "RpcFunction" in functions["/{proxy+}"]


def test_transfer_modes(paths: Any) -> None:
    """Streamed is everything but the cards; the uri is what makes it so."""
    for path, methods in paths.items():
        [integration] = [method["x-amazon-apigateway-integration"] for method in methods.values()]
        uri = json.dumps(integration["uri"])
        is_streamed = not path.startswith("/.well-known/")
        assert ("/response-streaming-invocations" in uri) is is_streamed
        assert ("2021-11-15" in uri) is is_streamed
        assert integration.get("responseTransferMode") == ("STREAM" if is_streamed else None)
        assert integration.get("timeoutInMillis") == (900_000 if is_streamed else None)


def test_path_parts_are_what_api_gateway_takes(paths: Any) -> None:
    """A literal or a whole variable, and one variable for each level."""
    names: dict[str, set[str]] = {}
    for path in paths:
        parts = [part for part in path.split("/") if part]
        for depth, part in enumerate(parts):
            assert re.fullmatch(r"[A-Za-z0-9._:-]+|\{[A-Za-z0-9._-]+\+?\}", part), path
            if part.startswith("{"):
                names.setdefault("/".join(parts[:depth]), set()).add(part)
    assert all(len(variables) == 1 for variables in names.values())


def test_one_stage_alone(translated: Any) -> None:
    """SAM's deployment would make a second one, which nothing guards."""
    [stage] = of_type(translated, "AWS::ApiGateway::Stage").values()
    [deployment] = of_type(translated, "AWS::ApiGateway::Deployment").values()
    assert stage["Properties"]["StageName"] == "live"
    assert "StageName" not in deployment["Properties"]
    [settings] = stage["Properties"]["MethodSettings"]
    assert settings["ThrottlingRateLimit"] == {"Ref": "ThrottlingRate"}


def test_with_a_domain_the_apis_own_url_is_off(translated: Any) -> None:
    [server] = translated["Api"]["Properties"]["Body"]["servers"]
    assert server["x-amazon-apigateway-endpoint-configuration"] == {
        "disableExecuteApiEndpoint": {"Fn::If": ["HasDomain", True, False]}
    }


def test_the_function_url_is_off_and_streams(translated: Any) -> None:
    template = yaml_parse((ROOT / "template.yaml").read_text())
    parameter = template["Parameters"]["FunctionUrl"]
    assert parameter["Default"] == "false"
    assert "bypasses WAF" in parameter["Description"]
    [url] = of_type(translated, "AWS::Lambda::Url").values()
    assert url["Condition"] == "HasFunctionUrl"
    assert url["Properties"]["InvokeMode"] == "RESPONSE_STREAM"
    public = [
        name
        for name, item in of_type(translated, "AWS::Lambda::Permission").items()
        if item["Properties"]["Principal"] == "*"
    ]
    assert len(public) == 2
    assert all(translated[name]["Condition"] == "HasOpenUrl" for name in public)
    assert url["Properties"]["AuthType"] == {"Fn::If": ["HasIamUrl", "AWS_IAM", "NONE"]}


def test_gateway_answers_fit_both_bindings_and_browsers(translated: Any) -> None:
    [api] = of_type(translated, "AWS::ApiGateway::RestApi").values()
    responses = api["Properties"]["Body"]["x-amazon-apigateway-gateway-responses"]
    assert {"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED", "REQUEST_TOO_LARGE", "WAF_FILTERED"} == set(responses)
    for name, response in responses.items():
        template = response["responseTemplates"]["application/json"]
        body = json.loads(template.replace("$context.error.messageString", '"message"'))
        assert (body["jsonrpc"], body["id"]) == ("2.0", None)
        error = body["error"]
        assert isinstance(error["code"], int)
        assert error["message"]
        assert error["status"].isupper(), "google.rpc.Code, which HTTP+JSON has"
        allowed = response["responseParameters"]["gatewayresponse.header.Access-Control-Allow-Origin"]
        assert allowed == {"Fn::If": ["HasCorsOrigins", "'*'", {"Ref": "AWS::NoValue"}]}, name


def test_an_access_log_line_is_json_whatever_a_client_sends(source: str) -> None:
    """Variables that hold what a client wrote would break the line with a quotation mark."""
    log = yaml_parse(source)["Resources"]["Api"]["Properties"]["AccessLogSetting"]["Fn::If"][1]["Format"]
    assert isinstance(json.loads(log), dict)
    written_by_clients = (
        "path}",
        "userAgent",
        "requestOverride",
        "domainName",
        "protocol",
        "header",
        "query",
    )
    assert not [name for name in written_by_clients if name in log]
    assert '"$context.path"' not in log
