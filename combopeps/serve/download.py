"""All measurements of a campaign as a table, in the order in which they came."""

from __future__ import annotations

import csv
import io
from typing import Any

from combopeps.campaign import Campaign
from combopeps.campaign.records import readings_apart
from combopeps.tables.written import as_label, label_text

COLUMNS = "line", "query", "label", "value", "sem", "count"


def measurements_csv(campaign: Campaign) -> bytes:
    """One row for each: its line in the campaign, its query (none if observed), label, value, sem and count.

    `combopeps observe --csv` reads the columns label, value, sem and count.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for number, record in campaign.storage.read().records:
        kind = record.get("kind")
        if kind not in ("tell", "observe"):
            continue
        for part in readings_apart(record) if "arms" in record else [record]:
            if part["y"] is not None:
                label = label_text(as_label(part["label"]))
                said: list[Any] = [part["y"], part.get("sem", ""), part.get("count", 1)]
                rows.writerow([number, record.get("id", ""), label, *said])
    return text.getvalue().encode("utf-8", "backslashreplace")
