"""The shapes that requests and answers have. Fields are only ever added."""
