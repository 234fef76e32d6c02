"""Measurements over days, in a storage that survives crashes: by default a file, or a database."""

from combopeps.campaign.campaign import Campaign, Status
from combopeps.campaign.copying import copy
from combopeps.campaign.hands import Holder
from combopeps.campaign.salvage import Examination, examine, salvage
from combopeps.campaign.storage import Excerpt, Storage

__all__ = ["Campaign", "Examination", "Excerpt", "Holder", "Status", "Storage", "copy", "examine", "salvage"]
