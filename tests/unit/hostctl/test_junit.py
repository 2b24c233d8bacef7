from __future__ import annotations

from xml.etree import ElementTree

from hostctl.junit import junit

GOOD = {
    "group": "dns", "probe": "UDP <53>", "as": "helper", "expect": "deny", "got": "EPERM",
    "ok": True, "code": None,
}  # fmt: skip
BAD = {**GOOD, "probe": 'a "quoted" & odd\x1bname', "got": "sent", "ok": False, "code": "N201"}


def test_each_probe_is_a_case_and_a_control_that_is_not_enforced_a_failure() -> None:
    suite = ElementTree.fromstring(junit({"name": "box", "probes": [GOOD, BAD]}))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite.findall("testcase")
    assert (first.get("classname"), first.get("name")) == ("dns", "UDP <53> (helper)")
    assert first.find("failure") is None
    failure = second.find("failure")
    assert failure is not None
    assert failure.get("message") == "N201: expected deny, got sent"
    assert second.get("name") == 'a "quoted" & odd name (helper)'
