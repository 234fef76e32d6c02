"""`RemoteCampaign`: a campaign that lives on another machine."""
