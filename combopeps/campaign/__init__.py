"""Campaigns: runs whose events are committed to a database, over days, processes and machines."""

from combopeps.campaign.campaign import Campaign
from combopeps.campaign.export import CheckReport, check, copy, export
from combopeps.campaign.open_store import campaigns
from combopeps.campaign.store import Checkpoint, Cursor, Page, Store

__all__ = [
    "Campaign", "CheckReport", "Checkpoint", "Cursor", "Page", "Store", "campaigns", "check",
    "copy", "export",
]  # fmt: skip
