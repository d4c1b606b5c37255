"""Where jobs live: one protocol, two implementations. The only folder that knows SQL."""
