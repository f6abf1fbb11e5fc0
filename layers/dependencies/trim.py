"""Removes what no function uses: documentation and examples in botocore's service models, models of earlier
API versions, the web page of Powertools, tests in packages, type stubs, and lists of installed files, which
only an uninstall reads.

    python trim.py <folder of the packages>

boto3 shows that documentation in `help()`, and uses it for nothing else. A client without `api_version` has
the newest model.
"""

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any


def without_documentation(value: Any) -> Any:
    """A model with empty documentation: botocore needs some of these keys. A member that is named
    `documentation` stays: it has a shape as its value, not a string."""
    if isinstance(value, list):
        return [without_documentation(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: "" if name == "documentation" and isinstance(each, str) else without_documentation(each)
        for name, each in value.items()
    }


def main() -> None:
    packages = Path(sys.argv[1])
    for tests in packages.glob("*/tests"):
        shutil.rmtree(tests)
    for file in (*packages.rglob("*.pyi"), *packages.glob("*.dist-info/RECORD")):
        file.unlink()
    for page in packages.glob("aws_lambda_powertools/event_handler/openapi/swagger_ui/*.[jc]s*"):
        page.unlink()
    data = packages / "botocore" / "data"
    for service in data.glob("*/"):
        for earlier_version in sorted(service.glob("*/"))[:-1]:
            shutil.rmtree(earlier_version)
    for examples in data.glob("*/*/examples-1.json"):
        examples.unlink()
    for path in data.glob("*/*/service-2.json.gz"):
        model = json.loads(gzip.decompress(path.read_bytes()))
        text = json.dumps(without_documentation(model), separators=(",", ":"))
        path.unlink()  # it may be a hard link to the file in uv's cache, which all environments share
        content = bytearray(gzip.compress(text.encode(), mtime=0))
        content[9] = 255  # "unknown system", which Python 3.13 writes: the layer is the same by each version
        path.write_bytes(content)


if __name__ == "__main__":
    main()
