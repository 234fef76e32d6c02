"""`combopeps serve`: a campaign over HTTP, for a team."""

from combopeps.serve.launch import app, serve

__all__ = ["app", "serve"]
