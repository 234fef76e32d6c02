"""Measurements over days, in a storage that survives crashes: by default a file, or a database."""

from combopeps.campaign.campaign import Campaign
from combopeps.campaign.copying import copy
from combopeps.campaign.hands import Holder
from combopeps.campaign.registry import campaigns
from combopeps.campaign.salvage import Examination, examine, salvage
from combopeps.campaign.status import Status
from combopeps.campaign.storage import Excerpt, Storage

__all__ = [
    "Campaign", "Examination", "Excerpt", "Holder", "Status", "Storage", "campaigns", "copy", "examine", "salvage"
]  # fmt: skip
