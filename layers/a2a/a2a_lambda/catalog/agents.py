"""The agents of a deployment, isolated from each other.

    start("weather") ── a thread imports functions/agents/weather/agent.py ── a Future of the Agent

An agent is imported once, when it is first needed. An agent that cannot be imported fails its own calls
only. Other agents, and the event loop, do not wait for a slow import.
"""

import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from a2a_lambda import mistakes
from a2a_lambda.agent.agent import Agent
from a2a_lambda.catalog.manifest import read_manifest
from a2a_lambda.errors import ConfigurationError, ImportFailed, RouteNotFound, Unavailable, excerpt
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.profile import Profile

IMPORT_RETRY_SECONDS = 30.0
"""Seconds after which a failed import is tried again. A service that the import needs may have been down."""

LOCAL_RETRY_SECONDS = 1.0
"""The same in `make run`: an author who has just run make add does not wait."""

WARM_UP_START_SECONDS = 2.0
"""Seconds of Lambda's initialization in which imports may begin. An import that begins later would make
every cold start slow, including those for other agents."""

WARM_UP_AGENTS = 10
"""Maximum number of agents that are imported during the initialization. If there are very many, a container
serves only a few of them."""

WARM_UP_SECONDS = 6.0
"""Seconds for which the initialization waits for imports. Lambda ends it after ten. An import that takes
longer continues while the first request waits for it."""

SERVE_SECONDS = 8.0
"""Seconds for which `make run`, or a function without a manifest, waits for the imports of its agents. Then
it serves the others, and calls of an agent that is not there yet wait for it."""

IMPORT_SECONDS = 30.0
"""Seconds after which `make run`, or a function without a manifest, gives up on an import."""

NO_AGENT = "no agent; an agent is a folder with card.yaml and agent.py, and make agent NAME=hello writes one"

AgentImport = Future[Agent | str]
"""An import: the agent, or the reason why there is none."""

logger = logging.getLogger(__name__)


class Agents(Mapping[str, Profile]):
    """Profiles by name, the default agent first; and the agents themselves, when a turn needs them.

    default: name of the agent that answers at the root, even if its card cannot be read; "" if the cards do
        not say which one does.
    shows_reasons: whether a client may read why an agent is not available, as in development.
    card_problems: why a card cannot be read, by the agent's name; "" = why no agent is the default.
    reads_profiles: a profile is replaced by that of the agent once the agent is imported.
    """

    def __init__(
        self,
        profiles: Iterable[Profile],
        folder: Path = Path(),
        *,
        default: str | None = None,
        shows_reasons: bool = False,
        card_problems: Mapping[str, str] = MappingProxyType({}),
        reads_profiles: bool = False,
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self.default = next(iter(self._profiles), "") if default is None else default
        self._folder = folder
        self._shows_reasons = shows_reasons
        self._lock = threading.Lock()
        self._imports: dict[str, AgentImport] = {}
        self._failed_at: dict[str, float] = {}
        self._card_problems = card_problems
        self._reads_profiles = reads_profiles

    @classmethod
    def of(cls, *loaded: Agent) -> "Agents":
        """Agents that are imported already; the first is the default."""
        agents = cls(agent.profile for agent in loaded)
        for agent in loaded:
            agent_import = agents._imports[agent.name] = Future()
            agent_import.set_result(agent)
        return agents

    @classmethod
    def of_manifest(cls, manifest: Path, folder: Path, names: Sequence[str] = ()) -> "Agents":
        """Agents that `make build` found good. None is imported yet. names: agents to serve; empty = all.

        Raises ConfigurationError.
        """
        profiles = {profile.name: profile for profile in read_manifest(manifest)}
        served_names = _select_names(names, profiles, folder)
        selection = [profile for name, profile in profiles.items() if name in served_names]
        return cls(_default_first(selection, folder, names), folder)

    @classmethod
    def of_folder(cls, folder: Path, names: Sequence[str] = (), *, shows_reasons: bool = False) -> "Agents":
        """Agents of a folder, imported, or still importing after SERVE_SECONDS. What is wrong with one is
        logged; the others work. An import that never ends is given up.

        names: agents to serve; empty = all. Raises ConfigurationError if there is no agent, or an unknown
        name.
        """
        cards, reasons = read_cards(folder, names)
        for reason in reasons.values():
            logger.error("%s", reason)
        agent_names = {*cards, *reasons}
        for code in () if names else sorted(folder.glob("*/agent.py")):
            if code.parent.name not in agent_names:
                logger.warning(
                    "%s is not served, because there is no card.yaml beside it", mistakes.short_path(code)
                )
        profiles = [
            Profile(
                name=name,
                card=card,
                input_schemas={},
                modified_at=(folder / name / "card.yaml").stat().st_mtime,
            )
            for name, card in cards.items()
        ]
        # Any of the unreadable ones may be the default, so no other takes its place.
        default = "" if not reasons or any(card.default for card in cards.values()) else next(iter(reasons))
        if not default:
            try:
                profiles = _default_first(profiles, folder, names)
                default = profiles[0].name
            except ConfigurationError as error:  # the others are served by their names
                logger.error("%s", error)
                reasons[""] = str(error)
        agents = cls(
            profiles,
            folder,
            default=default,
            shows_reasons=shows_reasons,
            card_problems=reasons,
            reads_profiles=True,
        )
        imports = {name: agents.start(name) for name in cards}
        # The server starts without an agent whose import is slow. Calls to it wait for the import, or hear
        # that it was given up.
        late_imports = wait(imports.values(), timeout=SERVE_SECONDS).not_done
        for name in [name for name in cards if imports[name] in late_imports]:
            timer = threading.Timer(IMPORT_SECONDS - SERVE_SECONDS, agents._give_up, (name, imports[name]))
            timer.daemon = True
            timer.start()
        return agents

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    @property
    def has_public_names(self) -> bool:
        """Whether anyone may know which agents there are, because the default agent's card is public."""
        default_profile = self.get(self.default)
        return default_profile is not None and default_profile.card.public

    def find(self, name: str | None) -> Profile:
        """Profile of an agent by name, or of the default agent. Raises RouteNotFound, and Unavailable if its
        card cannot be read, or no agent is the default."""
        agent_name = name or self.default
        if agent_name in self._card_problems:
            raise Unavailable(self._public_reason(agent_name, self._card_problems[agent_name]))
        if agent_name not in self._profiles:
            agents = ""
            if self._shows_reasons:
                hint = mistakes.did_you_mean(agent_name, self._profiles)
                agents = f"{hint} Agents: {', '.join(self._profiles) or 'none'}"
            raise RouteNotFound(f"there is no agent {excerpt(agent_name)!r}{agents}")
        return self._profiles[agent_name]

    def start(self, name: str) -> AgentImport:
        """Begin to import an agent, unless that has happened. `agent_of` has its result."""
        with self._lock:
            agent_import = self._imports.get(name)
            pause = LOCAL_RETRY_SECONDS if self._shows_reasons else IMPORT_RETRY_SECONDS
            is_stale = name in self._failed_at and time.monotonic() - self._failed_at[name] > pause
            if agent_import is not None and not is_stale:
                return agent_import
            self._failed_at.pop(name, None)
            agent_import = self._imports[name] = Future()
            agent_import.set_running_or_notify_cancel()  # a caller that is canceled does not cancel it
        threading.Thread(
            target=self._load, args=(name, agent_import), name=f"import {name}", daemon=True
        ).start()
        return agent_import

    def load(self, name: str) -> Agent:
        """An agent, imported. Blocks. Raises Unavailable."""
        return agent_of(self.start(name))

    def warm_up(self) -> None:
        """Import the first agents while Lambda's initialization has the full CPU; see WARM_UP_SECONDS."""
        start = time.monotonic()
        for name in islice(self._profiles, WARM_UP_AGENTS):
            seconds = time.monotonic() - start
            if seconds > WARM_UP_START_SECONDS:
                return
            wait([self.start(name)], timeout=WARM_UP_SECONDS - seconds)

    def _load(self, name: str, agent_import: AgentImport) -> None:
        try:
            agent = Agent.load(self._folder / name, self._profiles[name].card)
            if self._reads_profiles:
                self._profiles[name] = agent.profile
            with self._lock:
                if agent_import.done():  # given up, too soon
                    agent_import = self._imports[name] = Future()
                    self._failed_at.pop(name, None)
                agent_import.set_result(agent)
        except ConfigurationError as error:
            if isinstance(error, ImportFailed) and not self._shows_reasons:
                logger.error("%s", error.summary, exc_info=error.__cause__)
            else:
                logger.error("%s", error)
            self._fail(name, agent_import, str(error))
        except BaseException as error:  # a turn waits for the future: it must end, whatever happens
            logger.exception("agent %s cannot be loaded", name)
            self._fail(name, agent_import, repr(error))

    def _fail(self, name: str, agent_import: AgentImport, reason: str) -> None:
        self._failed_at[name] = time.monotonic()
        with self._lock:
            if not agent_import.done():
                agent_import.set_result(self._public_reason(name, reason))

    def _give_up(self, name: str, agent_import: AgentImport) -> None:
        """Fail an import that takes too long. Its thread cannot be stopped, so it is not tried again."""
        if agent_import.done():
            return
        file = mistakes.short_path(self._folder / name / "agent.py")
        reason = (
            f"{file}: its import takes longer than {IMPORT_SECONDS:.0f} s. Move the slow part into a skill,"
            " or into a function with @cache"
        )
        logger.error("%s", reason)
        self._fail(name, agent_import, reason)
        self._failed_at[name] = math.inf

    def _public_reason(self, name: str, reason: str) -> str:
        if self._shows_reasons:
            return reason
        return (
            f"the agent {name!r} cannot be loaded"
            if name
            else "no agent is the default: call one by its name"
        )


def agent_of(agent_import: AgentImport) -> Agent:
    """The agent of an import. Blocks until it is over. Raises Unavailable, a new one for each caller."""
    result = agent_import.result()
    if isinstance(result, Agent):
        return result
    raise Unavailable(result)


def read_cards(folder: Path, names: Sequence[str] = ()) -> tuple[dict[str, Card], dict[str, str]]:
    """Cards of a folder's agents by name, and what is wrong with those that cannot be read.

    names: agents to read; empty = all. Raises ConfigurationError if there is no agent, or an unknown name.
    """
    from a2a_lambda.agent.card_file import read_card

    paths = {path.parent.name: path for path in sorted(folder.glob("*/card.yaml"))}
    misnamed_cards = _misnamed_cards(folder)
    served_names = _select_names(names, [*paths, *misnamed_cards], folder)
    if not served_names:
        raise ConfigurationError(f"{folder}: {NO_AGENT}")
    reasons = {name: reason for name, reason in misnamed_cards.items() if name in served_names}
    cards: dict[str, Card] = {}
    for name, path in paths.items():
        if name not in served_names:
            continue
        try:
            cards[name] = read_card(path)
        except ConfigurationError as error:
            reasons[name] = str(error)
    return cards, reasons


def _misnamed_cards(folder: Path) -> dict[str, str]:
    """What is wrong with the folders of agents whose card has another name, by the folder's name."""
    cards = [card for suffix in ("yml", "json") for card in sorted(folder.glob(f"*/card.{suffix}"))]
    return {
        card.parent.name: f"{mistakes.short_path(card)}: a card is called card.yaml: rename this file"
        for card in cards
        if card.with_name("agent.py").exists() and not card.with_name("card.yaml").exists()
    }


def default_of(cards: Mapping[str, Card], names: Sequence[str] = ()) -> str:
    """Name of the agent that answers at the root; "" if that is not clear. names: agents that are served;
    empty = all."""
    candidates = _default_candidates(cards, names)
    return candidates[0] if len(candidates) == 1 else ""


def _default_candidates(cards: Mapping[str, Card], names: Sequence[str]) -> list[str]:
    """Names of the agents that may answer at the root: those whose card says so; else the first one that is
    named; else all."""
    defaults = [name for name, card in cards.items() if card.default]
    return defaults or [name for name in names[:1] if name in cards] or list(cards)


def load_profiles(folder: Path, names: Sequence[str] = ()) -> list[Profile]:
    """Profiles of a folder's agents, the default agent first, for the manifest. names: agents to check; empty
    = all. Raises ConfigurationError, with what is wrong with each agent."""
    folders = [path.parent for path in sorted(folder.glob("*/card.yaml"))]
    misnamed_cards = _misnamed_cards(folder)
    served_names = _select_names(names, [*(path.name for path in folders), *misnamed_cards], folder)
    reasons = [reason for name, reason in misnamed_cards.items() if name in served_names]
    profiles = []
    for path in folders:
        try:
            if path.name in served_names:
                profiles.append(Agent.load(path).profile)
        except ConfigurationError as error:
            reasons.append(str(error))
    if reasons:
        raise ConfigurationError("\n".join(reasons))
    return _default_first(profiles, folder, names)


def _default_first(profiles: list[Profile], folder: Path, names: Sequence[str] = ()) -> list[Profile]:
    """The profiles, the default agent's first. names: agents that are served."""
    if not profiles:
        raise ConfigurationError(f"{folder}: {NO_AGENT}")
    cards = {profile.name: profile.card for profile in profiles}
    candidates = _default_candidates(cards, names)
    if len(candidates) > 1:
        rule = "only one of these may" if cards[candidates[0]].default else "one of these must"
        raise ConfigurationError(
            f"{folder}: {rule} say `default: true`: {', '.join(f'{name}/card.yaml' for name in candidates)}"
        )
    return sorted(profiles, key=lambda profile: profile.name != candidates[0])


def _select_names(names: Collection[str], choices: Collection[str], folder: Path) -> set[str]:
    """Names of the agents to serve. Raises ConfigurationError for an unknown name.

    names: agents that the operator has named; empty = all choices.
    """
    for name in names:
        if name not in choices:
            hint = mistakes.did_you_mean(name, choices)
            raise ConfigurationError(
                f"there is no agent {name!r} in {folder}{hint} Agents: {', '.join(choices) or 'none'}"
            )
    return set(names or choices)
