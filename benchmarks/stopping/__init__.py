"""Stopping rules: samples, error rates, tightness of the certificates, and what the looks cost."""
