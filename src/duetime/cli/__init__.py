"""How people reach duetime from a terminal. The only folder that prints."""
