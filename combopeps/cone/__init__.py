"""The cone of the current answer: every theta under which it is best."""
