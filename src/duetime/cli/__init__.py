"""The command line. The only package that prints."""
