"""Keys of the bucket's objects: the owner's digest first, then the agent, then the path of the reference.

<SHA-256 of the owner, 32 hex digits>/<agent>/tasks/<digest>/<turn>[-<epoch>]/<number>
"""

import hashlib

from a2a_lambda.errors import FileAbsent
from a2a_lambda.protocol.stored_file import REFERENCE, SCHEME
from a2a_lambda.tasks.identity import Scope


def owner_prefix(owner: str) -> str:
    """What the keys of all files of an owner begin with."""
    return f"{hashlib.sha256(owner.encode()).hexdigest()[:32]}/"


def key_of(scope: Scope, reference: str) -> str:
    """Key of the object that a reference of this owner and agent means. Raises FileAbsent if it is none."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise FileAbsent("this is no reference")
    return folder_key(scope, f"{SCHEME}{match['path']}")


def version_of(reference: str) -> str:
    """Version that the object of a reference must have; "" = any."""
    match = REFERENCE.fullmatch(reference)
    return (match["version"] or "") if match else ""


def folder_key(scope: Scope, folder: str) -> str:
    """Prefix of the keys of all files whose references begin with `folder`."""
    return f"{owner_prefix(scope.owner)}{scope.agent}/{folder.removeprefix(SCHEME)}"
