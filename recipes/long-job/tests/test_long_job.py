import asyncio
from pathlib import Path

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])


def test_the_job_reports_its_progress_and_its_result() -> None:
    slots = {"subject": "anvils", "seconds": "0"}
    answer = asyncio.run(agent.run("Write it.", skill="report", slots=slots))
    assert answer.state == "completed"
    assert answer.text.endswith("The report about anvils is done.")
    steps = [
        event["statusUpdate"]["status"]["message"]["parts"][0]["text"]
        for event in answer.events
        if "statusUpdate" in event and "message" in event["statusUpdate"]["status"]
    ]
    assert steps[0] == "Summary, 1 of 4"
    [report] = [artifact for artifact in answer.artifacts if artifact.get("name") == "report.md"]
    text = "".join(part["text"] for part in report["parts"])
    assert text.count("## ") == 4


def test_a_message_alone_names_the_subject() -> None:
    answer = asyncio.run(agent.run("Rope", skill="report", slots={"seconds": "0"}))
    assert "about Rope" in answer.text
