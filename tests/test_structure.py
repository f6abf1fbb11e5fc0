"""The shape of the package."""

import ast
import os
import subprocess
import sys

from tests.conftest import ROOT


def test_imports_go_one_way() -> None:
    """The core knows nothing of HTTP, Lambda or the development server, and there is no cycle."""
    package = ROOT / "layers" / "a2a" / "a2a_lambda"
    imports: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text().replace("if TYPE_CHECKING:", "if False:")
        imports[name] = _imported(text)
    outer = ("a2a_lambda.http", "a2a_lambda.lambda_", "a2a_lambda.local", "a2a_lambda.client")
    for name, found in imports.items():
        if not name.startswith(outer):
            assert not [other for other in found if other.startswith(outer)], name
        if name.startswith("a2a_lambda.wire"):
            forbidden = {
                "a2a_lambda.store",
                "a2a_lambda.operations.service",
                "a2a_lambda.turns.run",
                "a2a_lambda.access.keys",
            }
            assert not found & forbidden, name
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for other in imports.get(name, set()):
                visit(other, (*above, name))
            done.add(name)

    for name in imports:
        visit(name, ())


def _imported(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(text).body:  # imports inside functions happen later, and cannot be a cycle
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("a2a_lambda"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".replace(".", "/")
                module = (ROOT / "layers" / "a2a" / inner).with_suffix(".py")
                found.add(f"{node.module}.{alias.name}" if module.exists() else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("a2a_lambda")}
    return found


def test_the_cold_path_imports_nothing_it_does_not_need() -> None:
    """Neither of the functions that answer HTTP loads what other functions, or rare routes, need."""
    for function in ("api", "rpc"):
        code = (
            "import os, sys, runpy; os.environ['A2A_QUEUE'] = 'https://queue';"
            f"runpy.run_path('functions/{function}.py');"
            "print(*{name.partition('.')[0] for name in sys.modules})"
        )
        environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = set(found.stdout.split())
        assert "fastapi" in loaded
        assert not loaded & {"boto3", "httpx2", "rfc8785", "aws_xray_sdk", "uvicorn", "moto"}, function
