"""A campaign that lives elsewhere, behind the address of its server."""

from combopeps.remote.remote_campaign import RemoteCampaign

__all__ = ["RemoteCampaign"]
