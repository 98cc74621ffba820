"""Results of drills as JUnit XML, which CI servers can show: one test case for each drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from klamm.cluster.plain_text import harmless


def junit_xml(
    reports: Sequence[Mapping[str, Any]],
    durations_s: Sequence[float],
    left_out: Mapping[str, str],
) -> str:
    """Return the reports of drills as a JUnit XML document.

    ``reports``: the values of ``drills`` in the output of `klamm drill run --json`.
    ``durations_s``: wall-clock duration of each drill. The test case of a failed drill contains its
    failures and the command that repeats it. An inconclusive drill is reported as an error, not as
    a failure. The drills that were ``left_out`` are reported as skipped, each
    with its reason.
    """
    by_element = {"failure": 0, "error": 0}
    count = len(reports) + len(left_out)
    suite = ET.Element("testsuite", name="klamm drill run", tests=str(count))
    for report, duration_s in zip(reports, durations_s, strict=True):
        case = ET.SubElement(
            suite,
            "testcase",
            name=report["drill"],
            classname=f"klamm.{report['world']}",
            time=f"{duration_s:.3f}",
        )
        if report["exit_code"] == 0:
            continue
        element = "error" if report["outcome"] == "inconclusive" else "failure"
        by_element[element] += 1
        lines = [
            harmless(f"{f['place']}: {f['expected']}; seen: {f['seen']}")
            for f in report["failures"]
        ]
        message = lines[0] if lines else report["outcome"]
        found = ET.SubElement(case, element, type=report["outcome"], message=message)
        found.text = "\n".join([*lines, f"repeat it with: {report['repeat']}"])
    for name, reason in left_out.items():
        case = ET.SubElement(suite, "testcase", name=name, classname="klamm", time="0.000")
        ET.SubElement(case, "skipped", message=reason)
    suite.set("skipped", str(len(left_out)))
    suite.set("failures", str(by_element["failure"]))
    suite.set("errors", str(by_element["error"]))
    suite.set("time", f"{sum(durations_s):.3f}")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
