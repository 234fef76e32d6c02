"""HTTP server of a campaign (`combopeps serve`), and its client `RemoteCampaign`."""
