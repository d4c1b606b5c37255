"""The integrations: web frameworks, and services that watch programs. Each needs its framework installed."""
