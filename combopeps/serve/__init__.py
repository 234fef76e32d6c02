"""`combopeps serve`: a campaign over HTTP, for a team."""
