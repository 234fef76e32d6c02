"""What a person sees of a campaign or a result: one page, live or as a file."""
