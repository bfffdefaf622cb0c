"""Tables as they come in: CSV and Parquet, frames of pandas, polars and Arrow, dicts and lists.

Each is a :class:`~heavytail.tables.frames.Table`: rows by the names of their columns, all at once
or a part at a time. A column is a NumPy array, a list or an Arrow array; it becomes numbers, lists
of numbers or categories, or a refusal that names source, row and column. The command line, logs
and encoders read by it. Only Parquet and Arrow itself need pyarrow.
"""
