"""Measurements over days, in a file that survives crashes."""

from combopeps.campaign.campaign import Campaign
from combopeps.campaign.salvage import Examination, examine, salvage
from combopeps.campaign.status import Status

__all__ = ["Campaign", "Examination", "Status", "examine", "salvage"]
