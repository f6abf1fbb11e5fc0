"""Alarms, metrics and the dashboard."""

import json
import re
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.template.resources import FUNCTIONS, of_type


def test_every_alarm_is_sent_and_documented(monitoring: Any) -> None:
    observability = (ROOT / "docs" / "observability.md").read_text()
    alarms = of_type(monitoring, "AWS::CloudWatch::Alarm")
    actions = {"Fn::If": ["SendsEach", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}
    for name, alarm in alarms.items():
        assert alarm["Properties"]["AlarmActions"] == alarm["Properties"]["OKActions"] == actions
        assert f"**{name}**" in observability, name
        percentile = "ExtendedStatistic" in alarm["Properties"]
        # "ignore" would keep the alarm as it is with fewer than 1,000 samples, which may be always.
        low_sample_count = alarm["Properties"].get("EvaluateLowSampleCountPercentile")
        assert low_sample_count == ("evaluate" if percentile else None)
    rule = json.dumps(monitoring["Summary"]["Properties"]["AlarmRule"])
    for name in alarms:
        assert f"${{{name}}}" in rule, "the summary stands for all"
    watched_metrics = {
        (alarm["Properties"]["MetricName"], json.dumps(dimension["Value"]))
        for alarm in alarms.values()
        for dimension in alarm["Properties"].get("Dimensions", [])
    }
    for name in ("RpcFunction", "ApiFunction"):  # private cards need keys, too
        assert ("KeyFailures", json.dumps({"Ref": name})) in watched_metrics
    for name in FUNCTIONS:
        assert {
            ("Errors", json.dumps({"Ref": name})),
            ("Throttles", json.dumps({"Ref": name})),
        } <= watched_metrics
    for queue in ("DeadNotices", "DeadRecords"):
        assert ("ApproximateNumberOfMessagesVisible", json.dumps({"Ref": queue})) in watched_metrics
    # The worker takes these, too, and hides those that it cannot mark.
    assert ("ApproximateNumberOfMessagesNotVisible", json.dumps({"Ref": "DeadTurns"})) in watched_metrics
    # The table's own metrics leave its indexes out.
    for metric, index in (
        ("ReadThrottleEvents", "by-status-time"),
        ("WriteThrottleEvents", "by-status-time"),
        ("WriteThrottleEvents", "by-due"),
    ):
        assert (metric, json.dumps(index)) in watched_metrics
    assert {metric for metric, _ in watched_metrics} >= {
        *("IteratorAge", "4XXError", "5XXError", "AsyncEventsDropped", "ApproximateAgeOfOldestMessage"),
        *("KeyFailures", "WriteThrottleEvents", "Faults"),
    }
    assert ("WriteThrottleEvents", json.dumps("by-status-time")) in watched_metrics


def test_a_sweep_that_does_not_run_is_an_alarm(monitoring: Any) -> None:
    """It is one, too, if there is no worker to say so."""
    alarm = monitoring["SweepStoppedAlarm"]["Properties"]
    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)


def test_what_is_watched_is_given(source: str, monitoring: Any) -> None:
    """The nested stack's parameters are those it is given."""
    values = yaml_parse(source)["Resources"]["Monitoring"]["Properties"]["Parameters"]
    monitoring_template = yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())
    assert set(values) == set(monitoring_template["Parameters"])


def test_metrics_are_called_what_the_functions_call_them(monitoring: Any) -> None:
    from a2a_lambda.lambda_ import metrics

    [dashboard] = of_type(monitoring, "AWS::CloudWatch::Dashboard").values()
    body = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
    json.loads(body)
    searches = re.findall(r"SEARCH\('\{(\w+),([\w,]+)\} MetricName=\\\"(\w+)", body)
    assert {namespace for namespace, _, _ in searches} == {metrics.NAMESPACE}
    assert metrics.__doc__ is not None
    own = [
        (
            ",".join(item["Name"] for item in alarm["Properties"]["Dimensions"]),
            alarm["Properties"]["MetricName"],
        )
        for alarm in of_type(monitoring, "AWS::CloudWatch::Alarm").values()
        if alarm["Properties"]["Namespace"] == metrics.NAMESPACE
    ]
    for dimensions, metric in [*(search[1:] for search in searches), *own]:
        [line] = [line for line in metrics.__doc__.splitlines() if line.strip().startswith(f"{metric} ")]
        for dimension in dimensions.split(","):
            assert dimension in line
