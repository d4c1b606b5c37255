"""Cold history: days of history as Parquet files, in a folder or in S3-compatible storage."""
