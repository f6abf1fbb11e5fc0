"""Parameter Store's quota, many containers, hundreds of keys, and callers that have none."""

import itertools
import json
import random
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access import keys
from a2a_lambda.access.credentials import digest_of
from a2a_lambda.access.keys import Keys
from a2a_lambda.aws import clients
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.settings import Settings
from a2a_lambda.store.key_copies import KeyCopies
from a2a_lambda.store.table import Table
from tests.access.conftest import unknown
from tests.helpers.simulation import Simulation

pytestmark = pytest.mark.slow(seconds=105)


QUOTA = 40.0
"""GetParametersByPath calls a second, of an account and region."""

PAGE = 10

CALL_SECONDS = 0.03


class ParameterStore:
    """Keys made beforehand; refuses calls over the quota, of which others use a part."""

    def __init__(self, simulation: Simulation, secrets: list[str], *, of_others: float = 0.0) -> None:
        self._simulation = simulation
        self._parameters: list[dict[str, str]] = []
        for secret in secrets:
            self.add(secret)
        self._rate = QUOTA - of_others
        self._tokens, self._filled = self._rate, simulation.now
        self.calls: list[float] = []

    def add(self, secret: str) -> None:
        digest = digest_of(secret)
        value: dict[str, Any] = {
            "digest": digest,
            "owner": digest[:8],
            "expires": None,
            "agents": [],
            "local": False,
        }
        self._parameters.append({"Name": f"/keys/k{digest[:8]}", "Value": json.dumps(value)})

    def get_parameters_by_path(self, *, Path: str, NextToken: str = "0", **_: Any) -> Any:  # AWS's names
        if Path.endswith("/issuers"):
            return {"Parameters": []}
        self._simulation.sleep(CALL_SECONDS)
        now = self._simulation.now
        self._tokens = min(self._rate, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        self.calls.append(now)
        if self._tokens < 1:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParametersByPath")
        self._tokens -= 1
        begin = int(NextToken)
        answer: dict[str, Any] = {"Parameters": self._parameters[begin : begin + PAGE]}
        if begin + PAGE < len(self._parameters):
            answer["NextToken"] = str(begin + PAGE)
        return answer


@pytest.fixture
def simulation() -> Simulation:
    random.seed(7)
    return Simulation()


class Deployment:
    """Containers as Lambda has them: each takes one request at a time, and a request that finds none free
    gets a new one."""

    def __init__(self, simulation: Simulation, parameters: ParameterStore, table: Table) -> None:
        self._simulation = simulation
        self._parameters: Any = parameters
        self._table = table
        self.path = f"/scale/{uuid.uuid4()}"
        self._free: list[Keys] = []
        self.containers = 0

    def request(self, secret: str) -> bool:
        """Whether a request with this key is let in. Raises KeysUnavailable."""
        container = self._free.pop() if self._free else self.cold()
        try:
            return bool(container.find_cached(secret) or container.find(secret))
        finally:
            self._free.append(container)

    def cold(self) -> Keys:
        self.containers += 1
        copies = KeyCopies(self._table, self.path)
        clock, sleep = self._simulation.clock, self._simulation.sleep
        return Keys(self._parameters, self.path, copies, clock=clock, sleep=sleep)

    def admit(self, secret: str, *, cold: bool = False) -> float:
        """Seconds until a client that tries again after each 503 is let in."""
        start_time = self._simulation.now
        if cold:
            self._free.append(self.cold())
        while True:
            try:
                assert self.request(secret), "a key that is there was refused"
                return self._simulation.now - start_time
            except KeysUnavailable:
                self._simulation.sleep(1.0)

    def attack(self, rate: float, seconds: float, junk: Iterator[int]) -> None:
        """Junk requests, so many a second, each with another key."""
        end = self._simulation.now + seconds
        while self._simulation.now < end:
            with suppress(KeysUnavailable):
                assert not self.request(unknown(next(junk)))
            self._simulation.sleep(1 / rate)


@pytest.fixture
def deployed(settings: Settings, simulation: Simulation) -> Callable[[ParameterStore], Deployment]:
    table = Table(clients.dynamodb(settings), settings.table, clock=simulation.clock)
    return lambda parameters: Deployment(simulation, parameters, table)


Deployed = Callable[[ParameterStore], Deployment]


@pytest.mark.parametrize(("number", "of_others"), [(300, 0.0), (300, 30.0), (900, 0.0)])
def test_everybody_with_a_key_gets_in_within_ten_seconds(
    simulation: Simulation, deployed: Deployed, number: int, of_others: float
) -> None:
    """50 cold containers at once, at 40 calls a second; and while others use three quarters of those."""
    secrets = [unknown(each) for each in range(number)]
    parameters = ParameterStore(simulation, secrets, of_others=of_others)
    deployment = deployed(parameters)
    waits: list[float] = []

    def callers(own: list[str]) -> None:
        waits.append(deployment.admit(own[0], cold=True))
        waits.extend(deployment.admit(secret) for secret in own[1:])

    simulation.run([partial(callers, secrets[each::50]) for each in range(50)])
    assert len(waits) == number
    assert deployment.containers >= 50
    assert max(waits) <= 10
    assert len(parameters.calls) <= 2 * number / PAGE, "one container reads for all"


def test_callers_without_a_key_use_up_no_quota_and_slow_down_no_one(
    simulation: Simulation, deployed: Deployed
) -> None:
    """For half a minute there are 200 junk requests a second, 20 with keys, and a cold container now and
    then."""
    secrets = [unknown(each) for each in range(300)]
    parameters = ParameterStore(simulation, secrets)
    deployment = deployed(parameters)
    start_time, junk = simulation.now, itertools.count(10**6)
    waits: list[float] = []

    def work(number: int, seconds: float, *, cold: bool) -> None:
        simulation.sleep(3.0)  # the first load is over
        while simulation.now < start_time + 30:
            waits.append(deployment.admit(secrets[number], cold=cold))
            simulation.sleep(seconds)

    simulation.run(
        [
            *(partial(deployment.attack, 4.0, 30.0, junk) for _ in range(50)),
            *(partial(work, number, 1.0, cold=False) for number in range(20)),
            partial(work, 20, 5.0, cold=True),
        ]
    )
    assert len(parameters.calls) / 30 <= keys.PAGES_PER_SECOND + 1, "the first load beside"
    assert busiest_second(parameters) <= QUOTA / 2 + 1
    assert max(waits) <= 0.1


def busiest_second(parameters: ParameterStore) -> int:
    """Most calls within a second."""
    times = parameters.calls
    return max(bisect_left(times, begin + 1) - index for index, begin in enumerate(times))


@pytest.mark.parametrize("seconds", [60.0, 301.0])
def test_a_stack_that_is_seldom_called_accepts_each_of_its_keys(
    simulation: Simulation, deployed: Deployed, seconds: float
) -> None:
    """Its copy of the keys is too old at each call, so that a call waits until all are read."""
    secrets = [unknown(each) for each in range(3_900)]
    deployment = deployed(ParameterStore(simulation, secrets))
    waits: list[float] = []

    def use() -> None:
        for secret in (*secrets[:2], *secrets[-2:]):
            start_time = simulation.now
            assert deployment.request(secret)
            waits.append(simulation.now - start_time)
            simulation.sleep(seconds)

    simulation.run([use])
    assert max(waits) <= keys.KEYS_READ_SECONDS + 1


def test_a_client_that_tries_again_gets_in_whatever_the_number_of_keys(
    simulation: Simulation, deployed: Deployed
) -> None:
    deployment = deployed(ParameterStore(simulation, [unknown(each) for each in range(5_000)]))
    waits: list[float] = []
    simulation.run([lambda: waits.append(deployment.admit(unknown(4_999)))])
    assert waits[0] <= 2 * keys.KEYS_READ_SECONDS


@pytest.mark.parametrize("number", [300, 600])
@pytest.mark.parametrize("seconds", [1.0, 20.0, 61.0])
def test_a_revoked_key_is_refused_soon_however_seldom_it_is_used(
    simulation: Simulation, deployed: Deployed, number: int, seconds: float
) -> None:
    """It is refused at the latest at the second request that comes more than a minute after it was
    revoked."""
    secrets = [unknown(each) for each in range(number)]
    parameters = ParameterStore(simulation, secrets)
    deployment = deployed(parameters)
    late: list[float] = []

    def use() -> None:
        deployment.admit(secrets[0])
        del parameters._parameters[0]
        revocation_time = simulation.now
        while True:
            simulation.sleep(seconds)
            with suppress(KeysUnavailable):
                if not deployment.request(secrets[0]):
                    break
        late.append(simulation.now - revocation_time)

    simulation.run([use])
    assert late[0] <= keys.FRESH_SECONDS + 2 * seconds + keys.KEYS_WAIT_SECONDS


def test_a_copy_of_the_future_is_not_trusted(
    simulation: Simulation, deployed: Deployed, settings: Settings
) -> None:
    """A container whose clock is wrong has made it: its keys would count as fresh, and hide what changed
    since."""
    secrets = [unknown(1)]
    deployment = deployed(ParameterStore(simulation, secrets))
    client = clients.dynamodb(settings)
    ahead = Table(client, settings.table, clock=lambda: simulation.now + 600)
    copies = KeyCopies(ahead, deployment.path)

    def act() -> None:
        load = copies.begin_load(seconds=1, resume=1)
        assert load is not None
        copies.finish_load(load)
        assert deployment.admit(secrets[0]) < 1

    simulation.run([act])


def test_a_busy_deployment_reads_its_keys_about_once_a_minute(
    simulation: Simulation, deployed: Deployed
) -> None:
    """It does so however many containers are busy."""
    secrets = [unknown(each) for each in range(300)]
    parameters = ParameterStore(simulation, secrets)
    deployment = deployed(parameters)
    start_time = simulation.now

    def caller(cold: bool = True) -> None:
        while simulation.now < start_time + 300:
            deployment.admit(random.choice(secrets), cold=cold)
            cold = False
            simulation.sleep(random.uniform(0.5, 1.5))

    simulation.run([caller for _ in range(30)])
    assert len(parameters.calls) / 300 <= 30 / (0.75 * keys.FRESH_SECONDS) + 0.1


def test_a_malformed_key_is_refused_without_a_call(simulation: Simulation, deployed: Deployed) -> None:
    parameters = ParameterStore(simulation, [unknown(1)])
    deployment = deployed(parameters)
    for wrong in ("", "x", "a2a_", "a2a_short", unknown(1) + "x", "b2b_" + unknown(1)[4:], "a2a_" + "é" * 43):
        assert not deployment.request(wrong)
    assert parameters.calls == []


def test_a_new_key_works_within_seconds_under_attack(simulation: Simulation, deployed: Deployed) -> None:
    secrets = [unknown(each) for each in range(300)]
    parameters = ParameterStore(simulation, secrets)
    deployment = deployed(parameters)
    new, late = unknown(5_000), []

    def create() -> None:
        simulation.sleep(10.0)
        parameters.add(new)
        start_time = simulation.now
        while not deployment.request(new):
            simulation.sleep(0.5)
        late.append(simulation.now - start_time)

    simulation.run([partial(deployment.attack, 10.0, 30.0, itertools.count(10**6)), create])
    assert late[0] <= 10
