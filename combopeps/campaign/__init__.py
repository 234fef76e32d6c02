"""Measurements over days, in a file that survives crashes."""

from combopeps.campaign.campaign import Campaign, Status
from combopeps.campaign.salvage import Examination, examine, salvage

__all__ = ["Campaign", "Examination", "Status", "examine", "salvage"]
